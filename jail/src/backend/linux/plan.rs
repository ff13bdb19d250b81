//! A policy, checked against this machine and listed as steps.

use super::cell::Cell;
use super::{facts, launch};
use crate::child::Launcher;
use crate::error::JailError;
use crate::guarantee::{Enforcement, Form, Guarantee, Strength};
use crate::policy::{Access, Network, Observe, Policy};

/// A policy that this machine can enforce, in one form; made once and opened
/// as often as needed.
#[derive(Clone, Debug)]
pub struct Plan {
    policy: Policy,
    form: Form,
    enforcement: Enforcement,
}

/// Picks the strongest form that this machine has and checks it against the
/// floor of the policy.
///
/// # Errors
///
/// [`JailError::BelowFloor`] names every guarantee that falls short.
pub fn prepare(policy: &Policy) -> Result<Plan, JailError> {
    match (facts::full_form(), facts::narrow_form()) {
        (Ok(()), _) => prepare_form(policy, Form::Full),
        (Err(_), Ok(())) => prepare_form(policy, Form::Narrow),
        (Err(full), Err(narrow)) => Err(below(policy, &format!("{full}; {narrow}"))),
    }
}

/// The same for a form that the caller names.
///
/// # Errors
///
/// [`JailError::BelowFloor`] also when this machine does not have that form.
pub fn prepare_form(policy: &Policy, form: Form) -> Result<Plan, JailError> {
    let available = match form {
        Form::Full => facts::full_form().clone(),
        Form::Narrow => facts::narrow_form(),
        Form::None => Err("running without a jail is not a form of this backend".to_owned()),
    };
    if let Err(why) = available {
        return Err(below(policy, &why));
    }
    let enforcement = facts::answers(policy, form);
    let missing = enforcement.below(&policy.floor);
    if !missing.is_empty() {
        return Err(JailError::BelowFloor { missing });
    }
    Ok(Plan {
        policy: policy.clone(),
        form,
        enforcement,
    })
}

fn below(policy: &Policy, why: &str) -> JailError {
    let wanted = |guarantee| {
        policy
            .floor
            .get(&guarantee)
            .copied()
            .unwrap_or(Strength::Enforced)
    };
    let missing = [Guarantee::Reads, Guarantee::Writes]
        .into_iter()
        .map(|guarantee| {
            let held = crate::guarantee::Held {
                strength: Strength::Absent,
                by: why.to_owned(),
            };
            (guarantee, wanted(guarantee), held)
        })
        .collect();
    JailError::BelowFloor { missing }
}

impl Plan {
    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The form.
    pub fn form(&self) -> Form {
        self.form
    }

    /// What this machine enforces of it.
    pub fn enforcement(&self) -> &Enforcement {
        &self.enforcement
    }

    /// Opens a cell.
    ///
    /// # Errors
    ///
    /// [`JailError::Step`] names the step and the kernel's answer,
    /// [`JailError::Changed`] a path that is no longer what the policy saw.
    pub fn open(&self, launcher: &Launcher) -> Result<Cell, JailError> {
        Cell::open(self, launcher)
    }

    /// The steps of opening a cell and of one call, one line each.
    pub fn steps(&self) -> Vec<String> {
        let policy = &self.policy;
        let mut steps =
            vec!["cell: exec a fresh image with one descriptor and no environment".to_owned()];
        if self.form == Form::Full {
            let network = if policy.network == Network::Off {
                " net"
            } else {
                ""
            };
            steps.push(format!(
                "cell: unshare user mount pid ipc uts cgroup{network}"
            ));
            steps.push("cell: map the user to itself, setgroups denied".to_owned());
            steps.push("cell: fork pid 1".to_owned());
            steps.push("cell: tmpfs as an empty root".to_owned());
            for grant in &policy.grants {
                let mut flags = vec!["nosuid", "nodev"];
                if !grant.access.contains(Access::WRITE) {
                    flags.push("ro");
                }
                if !grant.access.contains(Access::EXECUTE) {
                    flags.push("noexec");
                }
                let from = match &grant.source {
                    Some(source) => format!(" from {}", source.display()),
                    None => String::new(),
                };
                steps.push(format!(
                    "cell: bind {}{from} ({})",
                    grant.path.display(),
                    flags.join(",")
                ));
            }
            for dir in &policy.empty_dirs {
                steps.push(format!("cell: empty folder {}", dir.display()));
            }
            for dir in &policy.scratch {
                steps.push(format!("cell: tmpfs {}", dir.display()));
            }
            for protect in &policy.protect {
                let how = if protect.pin_only {
                    "pin"
                } else {
                    "bind read-only"
                };
                steps.push(format!("cell: {how} {}", protect.path.display()));
            }
            for hidden in &policy.hide {
                steps.push(format!("cell: cover {}", hidden.display()));
            }
            for link in &policy.links {
                steps.push(format!(
                    "cell: link {} -> {}",
                    link.path.display(),
                    link.target.display()
                ));
            }
            steps.push("cell: /dev (null zero full random urandom tty pts shm), /sys/devices/system/cpu, /proc of its own, /proc/sys read-only".to_owned());
            steps.push("cell: pivot_root, old root detached, new root read-only".to_owned());
        } else {
            steps.push("cell: become the subreaper".to_owned());
        }
        steps.push("cell: session keyring of its own, bounding set empty, not dumpable, no_new_privs, seccomp".to_owned());
        steps.push("call: setsid, die with pid 1, default signals, descriptors 0 to 2".to_owned());
        for (resource, value) in launch::limits(&policy.limits) {
            steps.push(format!("call: setrlimit {} {value}", limit_name(resource)));
        }
        steps.push("call: close-on-exec from 3, chdir, no capabilities".to_owned());
        steps.push("call: landlock_restrict_self".to_owned());
        if policy.observe != Observe::Off {
            steps.push("call: seccomp filter that shows refused accesses to pid 1".to_owned());
        }
        steps.push("call: execve; afterwards kill and reap everything left".to_owned());
        steps
    }
}

fn limit_name(resource: u32) -> &'static str {
    match resource as libc::__rlimit_resource_t {
        libc::RLIMIT_CORE => "core",
        libc::RLIMIT_NPROC => "processes",
        libc::RLIMIT_AS => "address space",
        libc::RLIMIT_FSIZE => "file size",
        libc::RLIMIT_NOFILE => "open files",
        libc::RLIMIT_CPU => "cpu seconds",
        _ => "limit",
    }
}
