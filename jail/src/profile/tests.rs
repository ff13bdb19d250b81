use std::fs;

use super::*;
use crate::guarantee::{Guarantee, Strength};
use crate::policy::{Access, Network};

/// A set with one folder of profiles written for the test.
fn with(files: &[(&str, &str)]) -> (tempfile::TempDir, ProfileSet) {
    let dir = tempfile::tempdir().expect("tempdir");
    for (name, text) in files {
        fs::write(dir.path().join(format!("{name}.toml")), text).expect("write");
    }
    let set = ProfileSet::builtin().with_dir(dir.path());
    (dir, set)
}

fn error(files: &[(&str, &str)], name: &str) -> (String, String) {
    let (dir, set) = with(files);
    let error = set.load(name).expect_err("an error");
    let text = error
        .to_string()
        .replace(&dir.path().display().to_string(), "DIR");
    (error.code().to_owned(), text)
}

#[test]
fn every_built_in_profile_and_toolchain_reads() {
    let set = ProfileSet::builtin();
    assert_eq!(
        set.names(),
        [
            "base",
            "bash",
            "readonly",
            "tools",
            "tools-readonly",
            "worker"
        ]
    );
    for name in set.names() {
        let profile = set.load(&name).expect("built-in profile");
        assert!(!profile.about.is_empty(), "{name}");
        assert!(!profile.grants.is_empty(), "{name}");
        assert_eq!(
            profile.floor.get(&Guarantee::Reads),
            Some(&Strength::Enforced),
            "{name}"
        );
    }
    for name in ["git", "python", "node", "cargo", "go"] {
        assert!(set.toolchain_names().contains(&name.to_owned()));
    }
    for name in set.toolchain_names() {
        let toolchain = set.toolchain(&name).expect("built-in toolchain");
        for grant in &toolchain.grants {
            assert!(
                !grant.access.contains(Access::WRITE),
                "{name}: {}",
                grant.path.text
            );
            assert!(grant.optional, "{name}: {}", grant.path.text);
        }
    }
}

#[test]
fn a_grant_keeps_its_line_and_its_profile() {
    let text = "name = \"mine\"\nextends = [\"base\"]\n\n# why\n[[grant]]\npath = \"${HOME}/x\"\naccess = \"read+write\"\nreason = \"r\"\n";
    let (_dir, set) = with(&[("mine", text)]);
    let profile = set.load("mine").expect("load");
    let grant = profile.grants.last().expect("grant");
    assert_eq!(
        (grant.path.at.line, grant.path.source.as_str()),
        (5, "mine")
    );
    assert_eq!(grant.access, Access::READ | Access::WRITE);
    let base = profile
        .grants
        .iter()
        .find(|grant| grant.path.text == "/usr")
        .expect("of base");
    let line = builtin("base")
        .expect("base")
        .lines()
        .position(|line| line.contains("\"/usr\""))
        .expect("line");
    // The header stands one line above the path; lines count from one.
    assert_eq!(
        (base.path.at.line as usize, base.path.source.as_str()),
        (line, "base")
    );
    assert_eq!(profile.chain, ["base", "mine"]);
}

#[test]
fn the_last_profile_decides_single_values_and_lists_are_joined() {
    let (_dir, set) = with(&[
        (
            "a",
            "name = \"a\"\nnetwork = \"open\"\ndeadline_seconds = 5\nscratch = [\"/one\"]\n[limits]\nprocesses = 1\nfile_size = \"1 MiB\"\n[floor]\nipc = \"detected\"\n",
        ),
        (
            "b",
            "name = \"b\"\nextends = [\"a\"]\nnetwork = \"off\"\nscratch = [\"/two\"]\n[limits]\nprocesses = 2\n[floor]\nipc = \"enforced\"\n",
        ),
    ]);
    let profile = set.load("b").expect("load");
    assert_eq!(profile.network, Network::Off);
    assert_eq!(profile.deadline_seconds, Some(5));
    let scratch: Vec<_> = profile
        .scratch
        .iter()
        .map(|line| line.text.as_str())
        .collect();
    assert_eq!(scratch, ["/one", "/two"]);
    assert_eq!(
        (profile.limits.processes, profile.limits.file_size),
        (Some(2), Some(1 << 20))
    );
    assert_eq!(
        profile.floor.get(&Guarantee::Ipc),
        Some(&Strength::Enforced)
    );
}

#[test]
fn a_parent_reached_twice_counts_once() {
    let (_dir, set) = with(&[
        ("l", "name = \"l\"\nextends = [\"base\"]\n"),
        ("r", "name = \"r\"\nextends = [\"base\"]\n"),
        ("top", "name = \"top\"\nextends = [\"l\", \"r\"]\n"),
    ]);
    let profile = set.load("top").expect("load");
    assert_eq!(profile.chain, ["base", "l", "r", "top"]);
    let usr = profile
        .grants
        .iter()
        .filter(|grant| grant.path.text == "/usr")
        .count();
    assert_eq!(usr, 1);
}

#[test]
fn mistakes_are_told_with_file_and_line() {
    let cases = [
        (
            "name = \"x\"\nnetwerk = \"off\"\n",
            "DIR/x.toml:2: unknown field `netwerk`",
        ),
        (
            "name = \"x\"\n\nnetwork = \"maybe\"\n",
            "DIR/x.toml:3: unknown variant `maybe`",
        ),
        (
            "name = \"x\"\n[[grant]]\npath = \"/a\"\naccess = \"rw\"\nreason = \"\"\n",
            "DIR/x.toml:4: \"rw\" is no access",
        ),
        (
            "name = \"x\"\n[[grant]]\npath = \"/a\"\naccess = \"read\"\n",
            "DIR/x.toml:2: missing field `reason`",
        ),
        (
            "name = \"y\"\n",
            "DIR/x.toml:1: the name is \"y\" but the file is called x.toml",
        ),
        (
            "name = \"x\"\nextends = [\n  \"base\",\n  \"gone\",\n]\n",
            "DIR/x.toml:4: extends \"gone\", which does not exist",
        ),
        (
            "name = \"x\"\n[limits]\ntmp_size = \"many\"\n",
            "DIR/x.toml:3: invalid value: string \"many\"",
        ),
        (
            "name = \"x\"\ntoolchains = \"all\"\n",
            "DIR/x.toml:2: invalid value: string \"all\", expected \"auto\"",
        ),
        (
            "name = \"x\"\n[floor]\nmagic = \"enforced\"\n",
            "DIR/x.toml:3: unknown variant `magic`",
        ),
        ("name = \n", "DIR/x.toml:1: "),
    ];
    for (text, want) in cases {
        let (code, got) = error(&[("x", text)], "x");
        assert_eq!(code, "profile_syntax", "{got}");
        assert!(
            got.starts_with(want),
            "{got:?} does not start with {want:?}"
        );
    }
}

#[test]
fn circles_are_found_and_names_cannot_leave_the_folder() {
    let (code, text) = error(
        &[
            ("a", "name = \"a\"\nextends = [\"b\"]\n"),
            ("b", "name = \"b\"\n\nextends = [\"a\"]\n"),
        ],
        "a",
    );
    assert_eq!(
        (code.as_str(), text.as_str()),
        (
            "profile_cycle",
            "DIR/b.toml:3: profiles extend each other in a circle: a -> b -> a"
        )
    );
    for name in ["../a", "a/b", "A", ".", ""] {
        let error = ProfileSet::builtin().load(name).expect_err("no name");
        assert_eq!(error.code(), "profile_name_invalid", "{name}");
    }
    let error = ProfileSet::builtin()
        .load("nowhere")
        .expect_err("not there");
    assert_eq!(error.code(), "profile_not_found");
    assert!(error.to_string().contains("base, bash, readonly"));
}

#[test]
fn a_built_in_name_cannot_be_replaced() {
    let (_dir, set) = with(&[("bash", "name = \"bash\"\nnetwork = \"open\"\n")]);
    assert_eq!(set.load("bash").expect("load").network, Network::Off);
}

#[test]
fn variables_expand_and_paths_are_plain() {
    let line = |text: &str| Line {
        text: text.to_owned(),
        at: Place {
            file: "f".to_owned(),
            line: 7,
        },
        source: "p".to_owned(),
    };
    let mut vars = Variables::default();
    vars.set("HOME", "/home/u");
    vars.set("USER", "u");
    assert_eq!(
        vars.path(&line("${HOME}/a/${USER}")).expect("path"),
        std::path::Path::new("/home/u/a/u")
    );
    for (text, code) in [
        ("${WORKSPACE}/a", "profile_variable_unknown"),
        ("${HOME/a", "profile_syntax"),
        ("a/b", "profile_path_invalid"),
        ("${HOME}/../other", "profile_path_invalid"),
    ] {
        let error = vars.path(&line(text)).expect_err("refused");
        assert_eq!(error.code(), code);
        assert!(error.to_string().starts_with("f:7: "), "{error}");
    }
}
