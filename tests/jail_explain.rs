//! `delegate jail explain` and `doctor`, driven through the binary.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::delegate;
use serde_json::Value;

struct Scene {
    _dir: tempfile::TempDir,
    base: PathBuf,
    ws: PathBuf,
}

impl Scene {
    fn new() -> Scene {
        let dir = tempfile::tempdir().expect("tempdir");
        let base = dir.path().canonicalize().expect("canonical");
        let ws = base.join("home/ws");
        fs::create_dir_all(&ws).expect("mkdir");
        Scene {
            _dir: dir,
            base,
            ws,
        }
    }

    fn run(&self, args: &[&str]) -> Output {
        Command::new(delegate())
            .args(args)
            .current_dir(&self.ws)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.base.join("home"))
            .output()
            .expect("delegate")
    }

    fn explain(&self, args: &[&str]) -> (String, i32) {
        let mut all = vec!["jail", "explain"];
        all.extend(args);
        let output = self.run(&all);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr);
        (text + &error, output.status.code().expect("code"))
    }

    fn json(&self, args: &[&str]) -> Value {
        let (text, _) = self.explain(args);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

#[test]
fn every_grant_is_shown_with_the_line_that_gave_it() {
    let scene = Scene::new();
    let object = scene.json(&["bash", "--json"]);
    let grants = object["grants"].as_array().expect("grants");
    for grant in grants {
        let by = grant["by"].as_str().expect("by");
        let (source, line) = by.rsplit_once(':').unwrap_or((by, "0"));
        let reason = grant["reason"].as_str().expect("reason");
        assert!(!reason.is_empty(), "{grant}");
        let file = source
            .strip_prefix("toolchain ")
            .map_or_else(|| source.to_owned(), |name| format!("toolchains/{name}"));
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("profiles/{file}.toml"));
        let text = fs::read_to_string(&path).expect("profile");
        let line: usize = line.parse().expect("line");
        // The line is that of the [[grant]]; its reason stands below.
        let below: Vec<&str> = text.lines().skip(line - 1).take(7).collect();
        assert_eq!(below[0], "[[grant]]", "{grant}");
        assert!(below.iter().any(|line| line.contains(reason)), "{grant}");
    }
    let (text, status) = scene.explain(&["bash"]);
    assert_eq!(status, 0);
    for part in [
        "profile     bash (base -> bash)",
        "read+write+execute",
        "base:",
        "bash:",
        "network     off",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn a_path_is_explained_with_the_way_out_and_the_way_out_works() {
    let scene = Scene::new();
    let beside = scene.base.join("home/beside");
    fs::create_dir(&beside).expect("mkdir");
    let file = beside.join("new.txt");
    let file = file.to_str().expect("utf-8");
    let (text, status) = scene.explain(&["bash", "--path", file, "--access", "write"]);
    assert_eq!(status, 1, "{text}");
    assert!(text.starts_with("refused: read+write on "), "{text}");
    let grant = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("way out  "))
        .expect("a way out");
    assert_eq!(grant, format!("--allow read+write:{}", beside.display()));
    let (flag, value) = grant.split_once(' ').expect("flag and value");
    let (text, status) = scene.explain(&["bash", flag, value, "--path", file, "--access", "write"]);
    assert_eq!(status, 0, "{text}");
    assert!(
        text.contains("because  command line gives read+write on"),
        "{text}"
    );
}

#[test]
fn home_secrets_scratch_and_protection_are_told_apart() {
    let scene = Scene::new();
    let home = scene.base.join("home");
    fs::create_dir_all(home.join(".ssh")).expect("mkdir");
    fs::write(home.join(".ssh/id_rsa"), "canary").expect("write");
    for dir in ["objects", "refs", "hooks", "info"] {
        fs::create_dir_all(scene.ws.join(".git").join(dir)).expect("mkdir");
    }
    let answer = |path: &Path, access: &str| {
        scene.json(&[
            "bash",
            "--json",
            "--path",
            path.to_str().expect("utf-8"),
            "--access",
            access,
        ])
    };
    let secret = answer(&home.join(".ssh/id_rsa"), "read");
    assert_eq!(secret["allowed"], false);
    let direct = answer(&home.join("x"), "write");
    assert_eq!(direct["allowed"], false);
    assert!(
        direct["way_out"]
            .as_str()
            .expect("way out")
            .contains("home directory")
    );
    let scratch = answer(Path::new("/tmp/x"), "write");
    assert_eq!(scratch["allowed"], true);
    assert!(
        scratch["because"]
            .as_str()
            .expect("because")
            .contains("private")
    );
    let hook = answer(&scene.ws.join(".git/hooks/pre-commit"), "write");
    assert_eq!(hook["allowed"], false);
    assert_eq!(hook["way_out"], "change it outside the jail");
    assert_eq!(
        answer(&scene.ws.join(".git/index"), "write")["allowed"],
        true
    );
    assert_eq!(
        answer(Path::new("/proc/self/status"), "read")["allowed"],
        true
    );
    assert_eq!(answer(Path::new("/dev/sda"), "read")["allowed"], false);
    assert_eq!(answer(Path::new("/bin/sh"), "execute")["allowed"], true);
    // A person who names the secret exactly gets it.
    let allow = format!("read:{}", home.join(".ssh/id_rsa").display());
    let path = home.join(".ssh/id_rsa");
    let named = scene.json(&[
        "bash",
        "--json",
        "--allow",
        &allow,
        "--path",
        path.to_str().expect("utf-8"),
    ]);
    assert_eq!(named["allowed"], true);
}

#[test]
fn the_steps_are_shown() {
    let scene = Scene::new();
    if let Err(why) = jail::survey().full {
        println!("skipped: steps of the full form: {why}");
        return;
    }
    let (text, status) = scene.explain(&["bash", "--steps", "--form", "full"]);
    assert_eq!(status, 0, "{text}");
    for part in [
        "pivot_root",
        "landlock_restrict_self",
        "execve",
        "bind /usr",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn mistakes_have_a_code_and_the_status_of_no_jail() {
    let scene = Scene::new();
    for (args, code) in [
        (&["nowhere"][..], "profile_not_found"),
        (&["../x"], "profile_name_invalid"),
        (&["bash", "--allow", "rw:/a"], "allow_invalid"),
        (
            &["bash", "--allow", "read:/no/such/path"],
            "profile_path_missing",
        ),
        (&["bash", "--allow", "read:/"], "profile_grant_refused"),
        (&["bash", "--toolchain", "cobol"], "toolchain_unknown"),
        (&["bash", "--workspace", "/"], "workspace_refused"),
        (&["bash", "--env", "NO_SUCH_VARIABLE"], "env_unset"),
    ] {
        let mut all = vec!["jail", "explain"];
        all.extend(args);
        all.push("--json");
        let output = scene.run(&all);
        assert_eq!(output.status.code(), Some(125), "{args:?}");
        let object: Value = serde_json::from_slice(&output.stderr).expect("JSON");
        assert_eq!(object["error"]["code"], code, "{args:?}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn own_profiles_are_found_and_a_workspace_has_none() {
    let scene = Scene::new();
    let own = scene.base.join("home/.config/delegate/profiles");
    fs::create_dir_all(&own).expect("mkdir");
    fs::write(
        own.join("mine.toml"),
        "name = \"mine\"\nextends = [\"readonly\"]\nnetwork = \"open\"\n",
    )
    .expect("write");
    fs::create_dir_all(scene.ws.join("profiles")).expect("mkdir");
    fs::write(scene.ws.join("profiles/theirs.toml"), "name = \"theirs\"\n").expect("write");
    assert_eq!(scene.json(&["mine", "--json"])["network"], "open");
    assert_eq!(
        scene.json(&["mine", "--json"])["chain"],
        serde_json::json!(["base", "readonly", "mine"])
    );
    assert_eq!(scene.explain(&["theirs"]).1, 125);
}

#[test]
fn doctor_answers_every_guarantee_and_proves_it() {
    let scene = Scene::new();
    for command in [&["doctor", "--json"][..], &["jail", "doctor", "--json"]] {
        let output = scene.run(command);
        let object: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        if jail::survey().full.is_err() && jail::survey().narrow.is_err() {
            println!("skipped: doctor's trial: no form of the jail here");
            continue;
        }
        assert_eq!(output.status.code(), Some(0), "{object:#}");
        assert_eq!(object["trial"]["ok"], true, "{object:#}");
        for form in object["survey"]["answers"]
            .as_object()
            .expect("answers")
            .values()
        {
            assert_eq!(
                form["guarantees"].as_object().expect("guarantees").len(),
                jail::Guarantee::ALL.len()
            );
        }
        let bash = object["profiles"]
            .as_array()
            .expect("profiles")
            .iter()
            .find(|state| state["name"] == "bash");
        assert!(bash.expect("bash")["form"].is_string(), "{object:#}");
    }
    let output = scene.run(&["doctor"]);
    let text = String::from_utf8_lossy(&output.stdout);
    for guarantee in jail::Guarantee::ALL {
        assert!(text.contains(guarantee.name()), "{guarantee}\n{text}");
    }
}
