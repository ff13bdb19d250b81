//! What a policy asks of a backend, and what the backend answers.
//!
//! Guarantees are the contract between [`Policy`](crate::Policy) and a
//! backend. A policy states the least it accepts for each; a backend says what
//! it delivers. Less than the floor and nothing starts.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// One promise about what a jailed process cannot do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Guarantee {
    /// Files outside the grants cannot be read.
    Reads,
    /// Files outside the writable grants cannot be changed.
    Writes,
    /// Protected paths inside writable grants stay as they were.
    Protected,
    /// Existence, size, modes, times and links outside the grants can be
    /// neither seen nor changed.
    Metadata,
    /// No packet leaves, except as the network mode says.
    Network,
    /// No socket of a host process can be reached, by path or abstract name.
    HostSockets,
    /// No System V or POSIX IPC object of the host is visible.
    Ipc,
    /// No process outside the jail can be signalled or traced.
    Signals,
    /// No terminal of the host can be read, written or typed into.
    Terminal,
    /// No kernel keyring of the host is reachable.
    Keyring,
    /// No descriptor of the launcher is inherited.
    Descriptors,
    /// The environment holds only what the policy lists.
    Environment,
    /// System calls that reach the kernel's dangerous corners are refused.
    Syscalls,
    /// Processes, memory, file size, output and time are bounded.
    Limits,
    /// No process of the tree outlives its call or its launcher.
    TreeDeath,
}

impl Guarantee {
    /// Every guarantee, in the order in which reports show them.
    pub const ALL: [Guarantee; 15] = [
        Guarantee::Reads,
        Guarantee::Writes,
        Guarantee::Protected,
        Guarantee::Metadata,
        Guarantee::Network,
        Guarantee::HostSockets,
        Guarantee::Ipc,
        Guarantee::Signals,
        Guarantee::Terminal,
        Guarantee::Keyring,
        Guarantee::Descriptors,
        Guarantee::Environment,
        Guarantee::Syscalls,
        Guarantee::Limits,
        Guarantee::TreeDeath,
    ];

    /// The stable name used in profiles, JSON and reports.
    pub fn name(self) -> &'static str {
        match self {
            Guarantee::Reads => "reads",
            Guarantee::Writes => "writes",
            Guarantee::Protected => "protected",
            Guarantee::Metadata => "metadata",
            Guarantee::Network => "network",
            Guarantee::HostSockets => "host_sockets",
            Guarantee::Ipc => "ipc",
            Guarantee::Signals => "signals",
            Guarantee::Terminal => "terminal",
            Guarantee::Keyring => "keyring",
            Guarantee::Descriptors => "descriptors",
            Guarantee::Environment => "environment",
            Guarantee::Syscalls => "syscalls",
            Guarantee::Limits => "limits",
            Guarantee::TreeDeath => "tree_death",
        }
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How strongly a guarantee holds. Ordered: `Absent < Detected < Enforced`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strength {
    /// Nothing holds it.
    Absent,
    /// It is undone and reported before the call returns.
    Detected,
    /// The kernel refuses.
    Enforced,
}

impl fmt::Display for Strength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Strength::Absent => "absent",
            Strength::Detected => "detected",
            Strength::Enforced => "enforced",
        })
    }
}

/// One guarantee as delivered: how strongly, and by which mechanism.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// How strongly it holds.
    pub strength: Strength,
    /// The mechanism in a few words, or what is missing.
    pub by: String,
}

/// Which shape of the backend is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Namespaces, private root, Landlock and seccomp.
    Full,
    /// Landlock, seccomp, limits and a subreaper, without namespaces.
    Narrow,
    /// Nothing: a person asked for it in so many words.
    None,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Form::Full => "full",
            Form::Narrow => "narrow",
            Form::None => "none",
        })
    }
}

/// A backend's whole answer: one [`Held`] for each guarantee.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforcement {
    /// `linux` or `seatbelt`.
    pub backend: String,
    /// Which form of it.
    pub form: Form,
    /// The answer for each guarantee; every guarantee is present.
    pub guarantees: BTreeMap<Guarantee, Held>,
}

impl Enforcement {
    /// The guarantees that fall below `floor`, with what was asked and given.
    pub fn below(&self, floor: &BTreeMap<Guarantee, Strength>) -> Vec<(Guarantee, Strength, Held)> {
        floor
            .iter()
            .filter_map(|(guarantee, wanted)| {
                let held = self.guarantees.get(guarantee).cloned().unwrap_or(Held {
                    strength: Strength::Absent,
                    by: "the backend does not answer".to_owned(),
                });
                (held.strength < *wanted).then_some((*guarantee, *wanted, held))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guarantee_below_its_floor_is_named_and_one_at_its_floor_is_not() {
        let mut guarantees = BTreeMap::new();
        guarantees.insert(
            Guarantee::Reads,
            Held {
                strength: Strength::Enforced,
                by: String::new(),
            },
        );
        guarantees.insert(
            Guarantee::Writes,
            Held {
                strength: Strength::Detected,
                by: String::new(),
            },
        );
        let enforcement = Enforcement {
            backend: "linux".to_owned(),
            form: Form::Narrow,
            guarantees,
        };
        let floor = BTreeMap::from([
            (Guarantee::Reads, Strength::Enforced),
            (Guarantee::Writes, Strength::Enforced),
            (Guarantee::Ipc, Strength::Detected),
        ]);
        let missing: Vec<_> = enforcement
            .below(&floor)
            .into_iter()
            .map(|(g, ..)| g)
            .collect();
        assert_eq!(missing, [Guarantee::Writes, Guarantee::Ipc]);
    }

    #[test]
    fn names_are_those_of_the_serialised_form() {
        for guarantee in Guarantee::ALL {
            let json = serde_json::to_value(guarantee).expect("serialise");
            assert_eq!(json, guarantee.name());
        }
    }
}
