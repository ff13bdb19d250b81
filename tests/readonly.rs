//! A read-only run cannot write: its policy cannot, whatever the dispatcher
//! says.

mod common;

use std::fs;
use std::process::Command;

use common::{delegate, forms, workspace};

#[test]
fn the_kernel_refuses_writes_under_the_policies_of_a_read_only_run() {
    for form in forms() {
        for profile in ["readonly", "tools-readonly"] {
            let place = workspace();
            fs::write(place.path().join("file"), "old").expect("write");
            let attempt = |profile: &str| {
                Command::new(delegate())
                    .args([
                        "jail",
                        "run",
                        profile,
                        "--form",
                        &form,
                        "--allow",
                        "execute:/usr",
                        "--workspace",
                    ])
                    .arg(place.path())
                    .args([
                        "--",
                        "/usr/bin/sh",
                        "-c",
                        "cat file; echo new > file; echo made > other",
                    ])
                    .output()
                    .expect("run")
            };
            let output = attempt(profile);
            assert_eq!(output.stdout, b"old", "{form}, {profile}: {output:?}");
            assert!(!output.status.success(), "{form}, {profile}");
            assert_eq!(
                fs::read_to_string(place.path().join("file")).expect("read"),
                "old"
            );
            assert!(!place.path().join("other").exists());

            // The twin: the same under a policy that can.
            let output = attempt("bash");
            assert!(output.status.success(), "{form}: {output:?}");
            assert_eq!(
                fs::read_to_string(place.path().join("file")).expect("read"),
                "new\n"
            );
        }
    }
}
