//! What `jail run` says when the command has ended.

use std::fmt::Write;

use jail::{Denial, Enforcement, Exit, Policy, Report};
use serde::Serialize;
use serde_json::{Value, json};

use super::Failure;
use crate::cli::text::plain;

/// A refused access with what would allow it.
#[derive(Serialize)]
struct Refused {
    path: String,
    access: String,
    operation: String,
    count: u32,
    because: String,
    way_out: Option<String>,
}

/// Denials shown as text; all of them are in the JSON.
const MOST_LINES: usize = 20;

fn refused(policy: &Policy, denial: &Denial) -> Refused {
    let (because, way_out) = if denial.path.is_absolute() {
        let answer = jail::explain_path(policy, &denial.path, denial.access);
        (answer.because, answer.way_out)
    } else {
        let because = "no socket outside the jail can be reached".to_owned();
        (
            because,
            Some("--net open for addresses; nothing for sockets of the host".to_owned()),
        )
    };
    Refused {
        path: denial.path.display().to_string(),
        access: denial.access.to_string(),
        operation: denial.operation.clone(),
        count: denial.count,
        because,
        way_out,
    }
}

/// The whole report as one object.
pub(super) fn object(
    policy: &Policy,
    enforcement: &Enforcement,
    report: &Report,
    denials: &[Denial],
    status: u8,
) -> Value {
    let denials: Vec<Refused> = denials
        .iter()
        .map(|denial| refused(policy, denial))
        .collect();
    json!({
        "profile": policy.name,
        "workspace": policy.workspace,
        "status": status,
        "exit": report.exit,
        "survivors": report.survivors,
        "denials": denials,
        "wall_ms": millis(report.spent.wall),
        "cpu_ms": millis(report.spent.cpu),
        "max_rss": report.spent.max_rss,
        "enforcement": enforcement,
    })
}

fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Why nothing was run, as one object.
pub(super) fn failure_object(failure: &Failure) -> Value {
    json!({
        "status": failure.status,
        "error": { "code": failure.code, "message": failure.message },
    })
}

/// A few lines for people, or nothing when there is nothing to tell.
pub(super) fn text(policy: &Policy, report: &Report, denials: &[Denial]) -> String {
    let mut out = String::new();
    if report.exit == Exit::Deadline {
        let _ = writeln!(out, "delegate: the command was killed at its deadline");
    }
    for denial in denials.iter().take(MOST_LINES) {
        let refused = refused(policy, denial);
        let times = if denial.count > 1 {
            format!(" ({} times)", denial.count)
        } else {
            String::new()
        };
        let _ = write!(
            out,
            "delegate: the jail refused {} {}{times}: {}",
            refused.operation, refused.path, refused.because
        );
        match refused.way_out {
            Some(way_out) => {
                let _ = writeln!(out, " ({way_out})");
            }
            None => out.push('\n'),
        }
    }
    if denials.len() > MOST_LINES {
        let _ = writeln!(
            out,
            "delegate: and {} more; --json or --report FILE has all",
            denials.len() - MOST_LINES
        );
    }
    plain(&out)
}
