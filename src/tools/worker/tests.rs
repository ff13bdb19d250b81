mod change;
mod read;
mod search;

use super::super::proto::{Outcome, Output};
use super::*;
use serde_json::json;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::Instant;

/// A gate that notes what it is asked, and may do something meanwhile.
#[derive(Default)]
struct Notes {
    plans: Vec<(Plan, Option<Vec<u8>>)>,
    refuse: Option<&'static str>,
    meanwhile: Option<Box<dyn FnMut()>>,
}

impl Gate for Notes {
    fn ask(
        &mut self,
        plan: Plan,
        present: Option<&[u8]>,
        flush: &mut dyn FnMut(),
    ) -> Result<(), String> {
        flush();
        self.plans.push((plan, present.map(<[u8]>::to_vec)));
        if let Some(meanwhile) = &mut self.meanwhile {
            meanwhile();
        }
        self.refuse.map_or(Ok(()), |why| Err(why.to_owned()))
    }
}

struct House {
    _dir: tempfile::TempDir,
    base: PathBuf,
    worker: Worker,
    gate: Notes,
}

impl House {
    fn new() -> House {
        Self::with(|_| {})
    }

    fn with(alter: impl FnOnce(&mut Hello)) -> House {
        let dir = tempfile::tempdir().expect("tempdir");
        let base = fs::canonicalize(dir.path()).expect("canonical");
        for made in ["w", "out", "spill"] {
            fs::create_dir(base.join(made)).expect("mkdir");
        }
        fs::write(base.join("out/secret"), "outside").expect("write");
        let found = fs::metadata(base.join("w")).expect("stat");
        let mut hello = Hello {
            version: VERSION,
            workspace: base.join("w"),
            dev: found.dev(),
            ino: found.ino(),
            readonly: false,
            vision: false,
            output: Some(Output {
                shown: PathBuf::from("/run/delegate/output"),
                at: base.join("spill"),
            }),
            leftovers: Vec::new(),
        };
        alter(&mut hello);
        House {
            worker: Worker::new(hello).expect("worker"),
            gate: Notes::default(),
            _dir: dir,
            base,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.join("w").join(name)
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
        fs::write(path, content).expect("write");
    }

    fn get(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("read")
    }

    fn call(&mut self, tool: &str, args: Value) -> Answer {
        let args = args.as_object().expect("object").clone();
        self.worker.run(tool, &args, &mut self.gate).0
    }

    fn ok(&mut self, tool: &str, args: Value) -> String {
        let answer = self.call(tool, args);
        assert!(answer.ok, "{}", answer.text);
        answer.text
    }

    fn fails(&mut self, tool: &str, args: Value) -> String {
        let answer = self.call(tool, args);
        assert!(!answer.ok, "{}", answer.text);
        assert!(answer.text.starts_with("ERROR: "), "{}", answer.text);
        answer.text
    }

    fn refused(&mut self, tool: &str, args: Value) -> String {
        let answer = self.call(tool, args.clone());
        assert!(answer.refused.is_some(), "{tool} {args}: {}", answer.text);
        assert!(
            answer.text.starts_with("ERROR: refused: "),
            "{}",
            answer.text
        );
        answer.text
    }

    /// The names in the workspace.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.base.join("w")).expect("list");
        let mut names: Vec<_> = entries
            .map(|entry| {
                entry
                    .expect("entry")
                    .file_name()
                    .into_string()
                    .expect("name")
            })
            .collect();
        names.sort();
        names
    }
}

#[test]
fn leftovers_of_a_killed_run_go_and_nothing_else_does() {
    let temp = ".delegate-01ARZ3NDEKTSV4RRFFQ69G5FAV.tmp";
    let house = House::new();
    for name in [temp, "mine.tmp", ".delegate-short.tmp"] {
        house.put(name, "x");
    }
    let found = fs::metadata(house.base.join("w")).expect("stat");
    let hello = Hello {
        version: VERSION,
        workspace: house.base.join("w"),
        dev: found.dev(),
        ino: found.ino(),
        readonly: false,
        vision: false,
        output: None,
        leftovers: [
            "mine.tmp",
            ".delegate-short.tmp",
            "../out/secret",
            temp,
            "gone",
        ]
        .map(str::to_owned)
        .to_vec(),
    };
    Worker::new(hello.clone()).expect("worker");
    assert_eq!(house.names(), [".delegate-short.tmp", "mine.tmp"]);
    let other = Hello { ino: 1, ..hello };
    assert!(Worker::new(other).is_err());
}

#[test]
fn a_client_that_talks_nonsense_ends_the_worker_without_a_panic() {
    for bytes in [&b"x"[..], &[0xff; 64], b"\x02\0\0\0\0\0\0\0{}", &[0; 8]] {
        let (mut ours, theirs) = UnixStream::pair().expect("pair");
        let served = std::thread::spawn(move || serve(theirs));
        ours.write_all(bytes).expect("write");
        drop(ours);
        assert!(served.join().expect("no panic").is_err());
    }
}
