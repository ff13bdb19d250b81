//! What this kernel and this user can enforce, found by asking and by trying.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::OnceLock;

use rustix::thread::UnshareFlags;
use serde::Serialize;

use super::landlock::{ABI_SCOPES, ABI_TRUNCATE};
use crate::guarantee::{Enforcement, Form, Guarantee, Held, Strength};
use crate::policy::{Network, Policy};
use crate::sys;

/// The first Linux with `mount_setattr(2)`, which the private root needs.
const MOUNT_SETATTR: (u32, u32) = (5, 12);
/// The first Linux whose `kernel.pid_max` belongs to the pid namespace.
const PID_MAX_PER_NAMESPACE: (u32, u32) = (6, 14);

/// What the machine can do; asked once a process.
#[derive(Clone, Debug, Serialize)]
pub struct Survey {
    /// `uname -r`.
    pub kernel: String,
    /// Landlock ABI of the kernel; 0 without Landlock.
    pub landlock_abi: u32,
    /// Whether this is root.
    pub root: bool,
    /// Whether the full form can be made, and if not the step that failed.
    pub full: Result<(), String>,
    /// Whether the narrow form can be made, and if not why.
    pub narrow: Result<(), String>,
    /// Each form's answer for each guarantee, network off.
    pub answers: BTreeMap<String, Enforcement>,
    /// What a person can change, one paragraph each; empty when all holds.
    pub advice: Vec<String>,
}

/// Enters new namespaces; a network namespace only on request.
pub(super) fn unshare(network: bool) -> io::Result<()> {
    let mut flags = UnshareFlags::NEWUSER
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWCGROUP;
    if network {
        flags |= UnshareFlags::NEWNET;
    }
    sys::unshare(flags.bits())
}

fn kernel() -> String {
    rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned()
}

fn at_least(release: &str, wanted: (u32, u32)) -> bool {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= wanted
}

pub(super) fn pid_max_is_per_namespace() -> bool {
    at_least(&kernel(), PID_MAX_PER_NAMESPACE)
}

/// Tries whether the full form can be made: by doing it, in a child that ends
/// at once. Reading sysctls would not tell of a container's system call filter
/// or of AppArmor.
fn try_full() -> Result<(), String> {
    let release = kernel();
    if !at_least(&release, MOUNT_SETATTR) {
        return Err(format!(
            "the kernel is {release} and 5.12 is the first with mount_setattr"
        ));
    }
    match sys::try_namespaces() {
        Ok(()) => Ok(()),
        Err((step, error)) => Err(format!("{step}: {error}")),
    }
}

pub(super) fn full_form() -> &'static Result<(), String> {
    static FULL: OnceLock<Result<(), String>> = OnceLock::new();
    FULL.get_or_init(try_full)
}

pub(super) fn narrow_form() -> Result<(), String> {
    if sys::landlock_abi() >= 1 {
        Ok(())
    } else {
        Err("the kernel has no Landlock (5.13 or later, with landlock in its lsm= list)".to_owned())
    }
}

fn held(strength: Strength, by: impl Into<String>) -> Held {
    Held {
        strength,
        by: by.into(),
    }
}

/// What a form delivers for a policy on this machine.
pub(super) fn answers(policy: &Policy, form: Form) -> Enforcement {
    let abi = sys::landlock_abi();
    let mut guarantees = BTreeMap::new();
    for guarantee in Guarantee::ALL {
        let answer = match form {
            Form::Full => full_answer(guarantee, policy, abi),
            _ => narrow_answer(guarantee, policy, abi),
        };
        guarantees.insert(guarantee, answer);
    }
    Enforcement {
        backend: "linux".to_owned(),
        form,
        guarantees,
    }
}

fn full_answer(guarantee: Guarantee, policy: &Policy, abi: u32) -> Held {
    use Strength::{Absent, Enforced};
    let second = if abi > 0 {
        format!(", Landlock ABI {abi}")
    } else {
        String::new()
    };
    match guarantee {
        Guarantee::Reads => held(Enforced, format!("private root{second}")),
        Guarantee::Writes => held(Enforced, format!("read-only mounts{second}")),
        Guarantee::Protected if policy.protect.is_empty() => {
            held(Enforced, "nothing in this policy is protected")
        }
        Guarantee::Protected => held(
            Enforced,
            format!(
                "read-only mounts over {} paths that exist; names that do not exist yet are not held",
                policy.protect.len()
            ),
        ),
        Guarantee::Metadata => held(Enforced, "private root"),
        Guarantee::Network if policy.network == Network::Open => {
            held(Enforced, "open, as the policy says")
        }
        Guarantee::Network => held(Enforced, "network namespace, socket filter"),
        Guarantee::HostSockets if policy.network == Network::Open && abi < ABI_SCOPES => held(
            Absent,
            "abstract sockets need Landlock ABI 6 when the network is open",
        ),
        Guarantee::HostSockets => held(
            Enforced,
            "private root and namespaces; a socket inside a granted folder belongs to the grant",
        ),
        Guarantee::Ipc => held(Enforced, "IPC namespace, private /dev/shm"),
        Guarantee::Signals => held(Enforced, "pid namespace"),
        Guarantee::Terminal => held(
            Enforced,
            "session of its own, private /dev/pts, TIOCSTI refused",
        ),
        Guarantee::Keyring => held(Enforced, "session keyring of its own, keyctl refused"),
        Guarantee::Descriptors => held(Enforced, "all above 2 closed at exec"),
        Guarantee::Environment => held(Enforced, "built from the policy"),
        Guarantee::Syscalls => held(Enforced, "seccomp, no_new_privs, no capabilities"),
        Guarantee::Limits => limits_answer(policy, true),
        Guarantee::TreeDeath => held(Enforced, "pid namespace"),
    }
}

fn narrow_answer(guarantee: Guarantee, policy: &Policy, abi: u32) -> Held {
    use Strength::{Absent, Detected, Enforced};
    match guarantee {
        Guarantee::Reads if abi >= 1 && !policy.hide.is_empty() => held(
            Absent,
            format!(
                "Landlock cannot take {} out of a granted folder",
                policy.hide[0].display()
            ),
        ),
        Guarantee::Reads if abi >= 1 => held(Enforced, format!("Landlock ABI {abi}")),
        Guarantee::Writes if abi >= ABI_TRUNCATE => held(Enforced, format!("Landlock ABI {abi}")),
        Guarantee::Writes if abi >= 1 => {
            held(Absent, "truncating needs Landlock ABI 3 (Linux 6.2)")
        }
        Guarantee::Reads | Guarantee::Writes => held(Absent, "the kernel has no Landlock"),
        Guarantee::Protected if policy.protect.is_empty() => {
            held(Enforced, "nothing in this policy is protected")
        }
        Guarantee::Protected => held(
            Absent,
            "Landlock cannot take a path out of a writable folder",
        ),
        Guarantee::Metadata => held(
            Absent,
            "Landlock has no right for stat, chmod, chown and times",
        ),
        Guarantee::Network if policy.network == Network::Open => {
            held(Enforced, "open, as the policy says")
        }
        Guarantee::Network => held(
            Enforced,
            "socket filter: no IP sockets, own loopback included",
        ),
        Guarantee::HostSockets => held(
            Absent,
            "sockets by path stay reachable without a private root",
        ),
        Guarantee::Ipc => held(Absent, "no IPC namespace"),
        Guarantee::Signals if abi >= ABI_SCOPES => held(Enforced, "Landlock signal scope"),
        Guarantee::Signals => held(Absent, "needs Landlock ABI 6 (Linux 6.12)"),
        Guarantee::Terminal => held(Enforced, "session of its own, TIOCSTI refused"),
        Guarantee::Keyring => held(Enforced, "session keyring of its own, keyctl refused"),
        Guarantee::Descriptors => held(Enforced, "all above 2 closed at exec"),
        Guarantee::Environment => held(Enforced, "built from the policy"),
        Guarantee::Syscalls => held(Enforced, "seccomp, no_new_privs, no capabilities"),
        Guarantee::Limits => limits_answer(policy, false),
        Guarantee::TreeDeath => held(Detected, "subreaper that kills until nothing is left"),
    }
}

fn limits_answer(policy: &Policy, full: bool) -> Held {
    let limits = &policy.limits;
    let processes = match (limits.processes, rustix::process::geteuid().is_root()) {
        (None, _) => "processes unbounded",
        (Some(_), true) if full && pid_max_is_per_namespace() => "processes by pid_max",
        (Some(_), true) => {
            return held(
                Strength::Absent,
                "root is not counted against RLIMIT_NPROC before Linux 6.14",
            );
        }
        (Some(_), false) => "processes by RLIMIT_NPROC",
    };
    held(
        Strength::Enforced,
        format!("{processes}; file size, descriptors, CPU and core dumps by rlimits"),
    )
}

/// Asks this machine everything that `doctor` shows.
pub fn survey() -> Survey {
    let full = full_form().clone();
    let narrow = narrow_form();
    let policy = Policy::empty();
    let mut answers_by_form = BTreeMap::new();
    for form in [Form::Full, Form::Narrow] {
        answers_by_form.insert(form.to_string(), answers(&policy, form));
    }
    Survey {
        kernel: kernel(),
        landlock_abi: sys::landlock_abi(),
        root: rustix::process::geteuid().is_root(),
        advice: advice(&full, &narrow),
        full,
        narrow,
        answers: answers_by_form,
    }
}

fn advice(full: &Result<(), String>, narrow: &Result<(), String>) -> Vec<String> {
    let mut advice = Vec::new();
    let sysctl = |name: &str| {
        fs::read_to_string(format!("/proc/sys/{name}"))
            .ok()
            .map(|text| text.trim().to_owned())
    };
    if full.is_err() {
        if sysctl("user/max_user_namespaces").as_deref() == Some("0") {
            advice.push("User namespaces are off: `sysctl -w user.max_user_namespaces=15000` turns them on.".to_owned());
        }
        if sysctl("kernel/unprivileged_userns_clone").as_deref() == Some("0") {
            advice.push(
                "User namespaces are off for ordinary users: `sysctl -w kernel.unprivileged_userns_clone=1` turns them on.".to_owned(),
            );
        }
        if sysctl("kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1") {
            advice.push(
                "AppArmor gives unprivileged user namespaces no rights here (Ubuntu 23.10 and later). Give delegate a profile: \
                 write `abi <abi/4.0>, include <tunables/global> profile delegate /path/to/delegate flags=(unconfined) { userns, }` \
                 to /etc/apparmor.d/delegate with the path of your binary, then `apparmor_parser -r /etc/apparmor.d/delegate`."
                    .to_owned(),
            );
        }
        if advice.is_empty() {
            advice.push(
                "In a container: allow user namespaces and an unmasked /proc (for Docker `--security-opt seccomp=unconfined \
                 --security-opt systempaths=unconfined`, or run delegate outside the container)."
                    .to_owned(),
            );
        }
    }
    if narrow.is_err() {
        advice.push("Landlock is missing: boot Linux 5.13 or later with `landlock` in the lsm= list of the kernel command line.".to_owned());
    }
    advice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_releases_compare_as_numbers() {
        assert!(at_least("6.18.44-fc-v857", (6, 14)));
        assert!(at_least("6.1.0-57-amd64", (5, 12)));
        assert!(!at_least("5.4.0", (5, 12)));
        assert!(!at_least("6.8.0-31-generic", (6, 14)));
        assert!(!at_least("strange", (5, 12)));
    }

    #[test]
    fn both_forms_answer_every_guarantee() {
        for form in [Form::Full, Form::Narrow] {
            assert_eq!(
                answers(&Policy::empty(), form).guarantees.len(),
                Guarantee::ALL.len()
            );
        }
    }
}
