//! What several black-box tests share.
#![allow(dead_code)]

pub mod scene;

use std::fs;
use std::path::PathBuf;

/// The binary under test; another one when it is tested as another user.
pub fn delegate() -> PathBuf {
    std::env::var_os("DELEGATE_TEST_BINARY")
        .map_or_else(|| env!("CARGO_BIN_EXE_delegate").into(), PathBuf::from)
}

/// A fresh folder that no other test uses.
pub fn workspace() -> tempfile::TempDir {
    tempfile::tempdir().expect("tempdir")
}

/// The forms of the jail that this machine has, by name; one that it lacks is
/// a counted line.
pub fn forms() -> Vec<String> {
    let survey = jail::survey();
    let mut forms = Vec::new();
    for (form, available) in [("full", &survey.full), ("narrow", &survey.narrow)] {
        match available {
            Ok(()) => forms.push(form.to_owned()),
            Err(why) => eprintln!("skipped: {form} form: {why}"),
        }
    }
    assert!(!forms.is_empty(), "no form at all");
    forms
}

/// Command lines of live processes that hold `marker`, this one's parents and
/// `delegate` itself left out.
pub fn processes_with(marker: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Ok(line) = fs::read(entry.path().join("cmdline")) else {
            continue;
        };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(marker) && !line.contains("jail run") {
            found.push(line);
        }
    }
    found
}
