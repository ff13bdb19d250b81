//! A policy in words: every grant with the line that gave it, and why a path
//! is or is not reachable.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::locate::{implicit, locate, scratch_for, shown};
use crate::policy::{Access, Grant, Network, Observe, Origin, Policy, Verdict};
use crate::resolve::{Note, Resolved, nearest};

/// One line of an explanation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// What may be done, or what is taken away.
    pub access: String,
    /// The path inside.
    pub path: PathBuf,
    /// The host path, where it is another one.
    pub source: Option<PathBuf>,
    /// `bash:12`, `toolchain cargo:9`, `command line`.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// A policy in words.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// Profile.
    pub profile: String,
    /// The profiles it was made of, parents first.
    pub chain: Vec<String>,
    /// Toolchains in use.
    pub toolchains: Vec<String>,
    /// Workspace.
    pub workspace: Option<PathBuf>,
    /// Network mode.
    pub network: Network,
    /// What is recorded.
    pub observe: Observe,
    /// Grants, parents before children.
    pub grants: Vec<Row>,
    /// Private, writable folders that last as long as the cell.
    pub scratch: Vec<PathBuf>,
    /// Empty, read-only folders.
    pub empty: Vec<PathBuf>,
    /// What stays as it is in writable grants.
    pub protect: Vec<Row>,
    /// What is shown empty.
    pub hide: Vec<PathBuf>,
    /// Names of the variables that are passed or set.
    pub env: Vec<String>,
    /// What was left out, and why. Optional paths that this host does not have
    /// are counted in `missing` instead.
    pub notes: Vec<Note>,
    /// How many optional paths this host does not have.
    pub missing: usize,
}

/// Puts a resolved profile into words.
pub fn explain(resolved: &Resolved) -> Explanation {
    let policy = &resolved.policy;
    let (missing, notes): (Vec<&Note>, Vec<&Note>) = resolved
        .notes
        .iter()
        .partition(|note| note.code == "optional_missing");
    Explanation {
        profile: policy.name.clone(),
        chain: resolved.chain.clone(),
        toolchains: resolved.toolchains.clone(),
        workspace: policy.workspace.clone(),
        network: policy.network,
        observe: policy.observe,
        grants: policy.grants.iter().map(grant_row).collect(),
        scratch: policy.scratch.clone(),
        empty: policy.empty_dirs.clone(),
        protect: policy
            .protect
            .iter()
            .map(|protect| Row {
                access: if protect.pin_only {
                    "pinned"
                } else {
                    "unchanged"
                }
                .to_owned(),
                path: protect.path.clone(),
                source: None,
                by: by(&protect.origin),
                reason: protect.origin.reason.clone(),
            })
            .collect(),
        hide: policy.hide.clone(),
        env: policy
            .env
            .iter()
            .map(|(name, _)| name.to_string_lossy().into_owned())
            .collect(),
        notes: notes.into_iter().cloned().collect(),
        missing: missing.len(),
    }
}

fn grant_row(grant: &Grant) -> Row {
    Row {
        access: grant.access.to_string(),
        path: grant.path.clone(),
        source: grant.source.clone(),
        by: by(&grant.origin),
        reason: grant.origin.reason.clone(),
    }
}

fn by(origin: &Origin) -> String {
    if origin.line == 0 {
        origin.source.clone()
    } else {
        format!("{}:{}", origin.source, origin.line)
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "profile     {} ({})",
            self.profile,
            self.chain.join(" -> ")
        )?;
        if let Some(workspace) = &self.workspace {
            writeln!(f, "workspace   {}", workspace.display())?;
        }
        let network = match self.network {
            Network::Off => "off (a loopback of its own)",
            Network::Open => "open (the host's)",
        };
        writeln!(f, "network     {network}")?;
        if !self.toolchains.is_empty() {
            writeln!(f, "toolchains  {}", self.toolchains.join(", "))?;
        }
        writeln!(f, "\ngranted")?;
        rows(f, &self.grants)?;
        writeln!(f, "\nprivate, writable, empty at first")?;
        for dir in &self.scratch {
            writeln!(f, "  {}", dir.display())?;
        }
        writeln!(f, "\nempty and read-only, but for what is granted in it")?;
        for dir in &self.empty {
            writeln!(f, "  {}", dir.display())?;
        }
        if !self.protect.is_empty() {
            writeln!(f, "\nprotected inside what can be written")?;
            rows(f, &self.protect)?;
        }
        if !self.hide.is_empty() {
            writeln!(f, "\nshown empty")?;
            for path in &self.hide {
                writeln!(f, "  {}", path.display())?;
            }
        }
        writeln!(f, "\nenvironment\n  {}", self.env.join(" "))?;
        if !self.notes.is_empty() {
            writeln!(f, "\nleft out")?;
            for note in &self.notes {
                writeln!(f, "  {}", note.text)?;
            }
        }
        if self.missing > 0 {
            writeln!(f, "\n{} optional paths are not on this host", self.missing)?;
        }
        Ok(())
    }
}

fn rows(f: &mut fmt::Formatter<'_>, rows: &[Row]) -> fmt::Result {
    let shown = |row: &Row| match &row.source {
        Some(source) => format!("{} (is {})", row.path.display(), source.display()),
        None => row.path.display().to_string(),
    };
    let access = rows.iter().map(|row| row.access.len()).max().unwrap_or(0);
    let path = rows
        .iter()
        .map(|row| shown(row).len())
        .max()
        .unwrap_or(0)
        .min(48);
    let by = rows.iter().map(|row| row.by.len()).max().unwrap_or(0);
    for row in rows {
        writeln!(
            f,
            "  {:access$}  {:path$}  {:by$}  {}",
            row.access,
            shown(row),
            row.by,
            row.reason
        )?;
    }
    Ok(())
}

/// Why a path is or is not reachable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathAnswer {
    /// As asked.
    pub path: PathBuf,
    /// The name under which a jailed process reaches it, links followed.
    pub located: PathBuf,
    /// What was asked.
    #[serde(serialize_with = "as_words")]
    pub asked: Access,
    /// Whether it is allowed.
    pub allowed: bool,
    /// What is given there.
    #[serde(serialize_with = "as_words")]
    pub given: Access,
    /// The host path that is seen there, if one is.
    pub shown: Option<PathBuf>,
    /// The deepest part of the path that exists on the host.
    pub nearest: PathBuf,
    /// Why, in one sentence.
    pub because: String,
    /// What would allow it, if anything would.
    pub way_out: Option<String>,
}

fn as_words<S: serde::Serializer>(access: &Access, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(access)
}

/// Says why `path` (absolute) is or is not reachable with `asked`.
pub fn explain_path(policy: &Policy, path: &Path, asked: Access) -> PathAnswer {
    let located = locate(policy, path);
    let verdict = policy.judge(&located, asked);
    let (nearest, _) = nearest(path);
    let own = implicit(&located);
    let because = if own {
        "the jail makes its own /proc, /dev and /sys/devices/system/cpu; the host's are not seen"
            .to_owned()
    } else {
        because(policy, &located, &verdict, asked)
    };
    let allowed = verdict.allowed || own;
    PathAnswer {
        path: path.to_path_buf(),
        way_out: (!allowed)
            .then(|| way_out(policy, &located, &nearest, &verdict, asked))
            .flatten(),
        shown: shown(policy, &located),
        located,
        asked,
        allowed,
        given: verdict.given,
        nearest,
        because,
    }
}

fn because(policy: &Policy, located: &Path, verdict: &Verdict, asked: Access) -> String {
    if let Some(taken) = &verdict.taken_by {
        if policy.hide.contains(taken) {
            return format!("{} is shown empty", taken.display());
        }
        if !verdict.allowed {
            let reason = policy
                .protect
                .iter()
                .find(|protect| protect.path == *taken)
                .map_or("", |protect| protect.origin.reason.as_str());
            return if taken == located {
                format!("it stays as it is: {reason}")
            } else {
                format!("{} stays as it is: {reason}", taken.display())
            };
        }
    }
    if let Some(dir) = scratch_for(policy, located) {
        return format!(
            "{} is private to the jail and empty at first; the host's is not seen",
            dir.display()
        );
    }
    match policy.grant_for(located) {
        Some(grant) => {
            let given = format!(
                "{} gives {} on {}: {}",
                by(&grant.origin),
                grant.access,
                grant.path.display(),
                grant.origin.reason
            );
            let missing = asked - grant.access;
            if missing.is_empty() {
                given
            } else {
                format!("{given}; that is not {missing}")
            }
        }
        None if policy.empty_dirs.iter().any(|dir| dir == located) => {
            "it is shown empty and read-only".to_owned()
        }
        None if policy
            .grants
            .iter()
            .any(|grant| grant.path.starts_with(located)) =>
        {
            "only the way down to what is granted exists".to_owned()
        }
        None => match policy
            .empty_dirs
            .iter()
            .rfind(|dir| located.starts_with(dir))
        {
            Some(dir) => format!(
                "{} is shown empty and read-only, and no grant covers this",
                dir.display()
            ),
            None => "no grant covers it".to_owned(),
        },
    }
}

fn way_out(
    policy: &Policy,
    located: &Path,
    nearest: &Path,
    verdict: &Verdict,
    asked: Access,
) -> Option<String> {
    if let Some(taken) = &verdict.taken_by {
        return Some(if policy.hide.contains(taken) {
            format!(
                "--allow {asked}:{} shows it, when it is named exactly",
                located.display()
            )
        } else {
            "change it outside the jail".to_owned()
        });
    }
    let home = policy
        .env
        .iter()
        .find(|(name, _)| name == "HOME")
        .map(|(_, home)| locate(policy, Path::new(home)));
    if nearest.parent().is_none() || home.is_some_and(|home| home.starts_with(nearest)) {
        let private: Vec<String> = policy
            .scratch
            .iter()
            .map(|dir| dir.display().to_string())
            .collect();
        let private = if private.is_empty() {
            String::new()
        } else {
            format!("; {} can be written", private.join(" "))
        };
        return Some(format!(
            "neither / nor the home directory is ever granted{private}; a folder in it that exists can be"
        ));
    }
    Some(format!("--allow {asked}:{}", nearest.display()))
}
