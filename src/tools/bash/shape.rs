//! The text of a Bash result. Pure.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use jail::Exit;

use super::super::worker::lossy;
use super::BashFacts;
use super::capture::Kept;

/// Refusals that are named one by one.
const MAX_NAMED: usize = 8;

/// The text for the model. `old`: in the form of `run_bash`.
pub(super) fn text(
    exit: Exit,
    stdout: &Kept,
    stderr: &Kept,
    facts: &BashFacts,
    timeout: Duration,
    old: bool,
) -> String {
    let mut text = match exit {
        Exit::Deadline => format!(
            "ERROR: the command was ended after {} s, its timeout, with everything it had \
             started; use a command that ends by itself, or a larger timeout (at most 1800)",
            seconds(timeout)
        ),
        Exit::Cancelled => "ERROR: the command was cancelled".to_owned(),
        Exit::Code(_) | Exit::Signal(_) if old => format!("exit_code: {}", exit.status()),
        Exit::Code(_) | Exit::Signal(_) => format!("[exit {}]", exit.status()),
    };
    if let Exit::Signal(signal) = exit {
        let _ = write!(text, "\n[ended by signal {signal}]");
    }
    let (out, err) = (stream(stdout), stream(stderr));
    if old {
        section(&mut text, "stdout", &out);
        section(&mut text, "stderr", &err);
    } else if out.is_empty() && err.is_empty() {
        text.push_str("\n(no output)");
    } else {
        if !out.is_empty() {
            let _ = write!(text, "\n{}", out.trim_end_matches('\n'));
        }
        if !err.is_empty() {
            section(&mut text, "stderr", &err);
        }
    }
    notes(&mut text, facts);
    text
}

/// Seconds as a person writes them.
fn seconds(time: Duration) -> String {
    match time.subsec_millis() {
        0 => time.as_secs().to_string(),
        millis => format!("{}.{millis:03}", time.as_secs()),
    }
}

fn section(text: &mut String, name: &str, content: &str) {
    let _ = write!(text, "\n--- {name} ---");
    if !content.is_empty() {
        let _ = write!(text, "\n{}", content.trim_end_matches('\n'));
    }
}

/// A stream as text, with a note where something is left out.
fn stream(kept: &Kept) -> Cow<'_, str> {
    if !kept.is_cut() {
        return lossy(&kept.head);
    }
    let captured = kept.head.len() + kept.tail.len();
    let mut text = lossy(&kept.head).into_owned();
    let _ = write!(text, "\n[... captured {captured} of {} bytes; ", kept.total);
    match &kept.whole {
        Some(path) => {
            let part = if kept.whole_is_cut {
                "the first 64 MiB are"
            } else {
                "the whole is"
            };
            let _ = writeln!(
                text,
                "{part} in {}, which Read can page ...]",
                path.display()
            );
        }
        None => text.push_str("the rest could not be kept ...]\n"),
    }
    text.push_str(&lossy(&kept.tail));
    Cow::Owned(text)
}

/// What the command itself could not say.
fn notes(text: &mut String, facts: &BashFacts) {
    for denial in facts.denials.iter().take(MAX_NAMED) {
        let _ = write!(
            text,
            "\n[the jail refused: {} {}]",
            denial.access,
            denial.path.display()
        );
    }
    let more = facts.denials.len().saturating_sub(MAX_NAMED);
    if more > 0 {
        let _ = write!(text, "\n[and {more} more refusals]");
    }
    match facts.survivors {
        0 => {}
        1 => text.push_str("\n[1 background process was ended]"),
        many => {
            let _ = write!(text, "\n[{many} background processes were ended]");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jail::{Access, Denial};

    fn kept(text: &str) -> Kept {
        Kept {
            head: text.as_bytes().to_vec(),
            total: text.len() as u64,
            ..Kept::default()
        }
    }

    fn facts() -> BashFacts {
        BashFacts {
            exit_code: Some(0),
            timed_out: false,
            survivors: 0,
            denials: Vec::new(),
        }
    }

    fn shaped(exit: Exit, out: &str, err: &str, old: bool) -> String {
        text(
            exit,
            &kept(out),
            &kept(err),
            &facts(),
            Duration::from_secs(5),
            old,
        )
    }

    #[test]
    fn a_result_starts_with_its_exit() {
        assert_eq!(shaped(Exit::Code(0), "hi\n", "", false), "[exit 0]\nhi");
        assert_eq!(
            shaped(Exit::Code(3), "a\n", "b\n", false),
            "[exit 3]\na\n--- stderr ---\nb"
        );
        assert_eq!(
            shaped(Exit::Code(1), "", "", false),
            "[exit 1]\n(no output)"
        );
        assert_eq!(
            shaped(Exit::Signal(9), "", "", false),
            "[exit 137]\n[ended by signal 9]\n(no output)"
        );
        assert!(shaped(Exit::Deadline, "part", "", false).starts_with("ERROR: "));
        assert!(shaped(Exit::Deadline, "part", "", false).ends_with("\npart"));
        assert!(shaped(Exit::Cancelled, "", "", false).starts_with("ERROR: "));
    }

    #[test]
    fn run_bash_keeps_its_form() {
        assert_eq!(
            shaped(Exit::Code(3), "a\n", "b\n", true),
            "exit_code: 3\n--- stdout ---\na\n--- stderr ---\nb"
        );
        assert_eq!(
            shaped(Exit::Code(0), "", "", true),
            "exit_code: 0\n--- stdout ---\n--- stderr ---"
        );
    }

    #[test]
    fn what_is_cut_and_what_was_refused_is_said() {
        let cut = Kept {
            head: b"begin".to_vec(),
            tail: b"end\xff".to_vec(),
            total: 20_000,
            whole: Some("/run/delegate/output/1-stdout".into()),
            whole_is_cut: false,
        };
        let mut facts = facts();
        facts.survivors = 2;
        facts.denials = vec![Denial {
            path: "/root/.ssh/id".into(),
            access: Access::READ,
            operation: "open".to_owned(),
            count: 1,
        }];
        let limit = Duration::from_secs(5);
        assert_eq!(
            text(Exit::Code(0), &cut, &kept(""), &facts, limit, false),
            "[exit 0]\nbegin\n[... captured 9 of 20000 bytes; the whole is in \
             /run/delegate/output/1-stdout, which Read can page ...]\nend\\xFF\n\
             [the jail refused: read /root/.ssh/id]\n[2 background processes were ended]"
        );
    }
}
