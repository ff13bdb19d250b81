//! What the README shows is what the program takes.

mod common;

use std::process::Command;

use clap::Parser;
use common::{delegate, workspace};
use delegate::cli::Cli;

const README: &str = include_str!("../README.md");

/// The lines of the `sh` blocks that start with `delegate`, comments off.
fn commands() -> Vec<Vec<String>> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in README.lines() {
        if line.starts_with("```") {
            inside = line == "```sh";
        } else if inside && line.starts_with("delegate ") {
            found.push(words(line.split(" #").next().unwrap_or(line)));
        }
    }
    found
}

/// Words as a shell splits them, as far as the README needs it.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in line.trim_end().chars() {
        match c {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().expect("a word").push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn every_command_line_of_the_readme_is_understood() {
    let commands = commands();
    assert!(commands.len() >= 9, "{commands:?}");
    for command in commands {
        if let Err(error) = Cli::try_parse_from(&command) {
            panic!("{command:?}: {error}");
        }
    }
}

#[test]
fn the_commands_that_only_look_do_what_the_readme_says() {
    let place = workspace();
    for command in commands() {
        let looks = command.get(1).is_some_and(|word| word == "jail")
            && command
                .get(2)
                .is_some_and(|word| word == "explain" || word == "doctor");
        if !looks {
            continue;
        }
        let args = command[1..]
            .iter()
            .map(|word| word.replace('~', "/nonexistent"));
        let output = Command::new(delegate())
            .args(args)
            .current_dir(place.path())
            .output()
            .expect("run");
        assert!(!output.stdout.is_empty(), "{command:?}: {output:?}");
        assert!(output.stderr.is_empty(), "{command:?}: {output:?}");
    }
}

#[test]
fn the_files_that_the_readme_and_security_name_are_there() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    for text in [README, include_str!("../SECURITY.md")] {
        for word in text.split('`').skip(1).step_by(2) {
            let is_file = ["docs/", "tests/", "scripts/", "profiles/"]
                .iter()
                .any(|dir| word.starts_with(dir));
            if is_file {
                let path = word.split_whitespace().next().unwrap_or(word);
                assert!(root.join(path).exists(), "{path} is named and not there");
            }
        }
    }
}
