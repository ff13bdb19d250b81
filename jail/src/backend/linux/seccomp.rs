//! System call filters, as programs ready to be installed.
//!
//! Deny lists rather than allow lists: what runs in a jail is whatever a
//! developer's machine runs, and the allow list of that is everything. What is
//! denied is what reaches past the other mechanisms: namespaces, mounts,
//! keyrings, foreign memory, the dangerous corners of the kernel, and sockets
//! that are neither IP, unix nor route netlink.
//!
//! Several filters are stacked since each holds one answer; the kernel takes
//! the strictest (seccomp(2)). Foreign architectures are killed by the check
//! that `seccompiler` puts first, x32 numbers by [`x32_guard`].

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

use crate::guarantee::Form;
use crate::policy::{Network, Observe, Policy, Relax};
use crate::sys::Instruction;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// `SECCOMP_RET_TRACE` with this value marks the places that [`notify`] turns
/// into `SECCOMP_RET_USER_NOTIF`, which `seccompiler` cannot write.
const MARK: u32 = 0x0d1e;
const RET_TRACE: u32 = 0x7ff0_0000;
const RET_USER_NOTIF: u32 = 0x7fc0_0000;

fn target() -> io::Result<TargetArch> {
    TargetArch::try_from(std::env::consts::ARCH)
        .map_err(|_| io::Error::from(io::ErrorKind::Unsupported))
}

fn invalid(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error.to_string())
}

fn compile(rules: Rules, matched: SeccompAction) -> io::Result<Vec<Instruction>> {
    let program: BpfProgram = SeccompFilter::new(rules, SeccompAction::Allow, matched, target()?)
        .and_then(TryInto::try_into)
        .map_err(invalid)?;
    Ok(program
        .into_iter()
        .map(|op| Instruction {
            code: op.code,
            jt: op.jt,
            jf: op.jf,
            k: op.k,
        })
        .collect())
}

fn when(index: u8, op: Op, value: u64) -> io::Result<SeccompCondition> {
    SeccompCondition::new(index, Len::Dword, op, value).map_err(invalid)
}

fn rule(conditions: Vec<SeccompCondition>) -> io::Result<SeccompRule> {
    SeccompRule::new(conditions).map_err(invalid)
}

/// `argument & bits == bits`.
fn has(index: u8, bits: u64) -> io::Result<SeccompCondition> {
    when(index, Op::MaskedEq(bits), bits)
}

/// Filters that hold for every call of a cell, in the order of installation.
pub(super) fn deny(policy: &Policy, form: Form) -> io::Result<Vec<Vec<Instruction>>> {
    let mut filters = vec![
        compile(
            refused(policy, form)?,
            SeccompAction::Errno(libc::EPERM as u32),
        )?,
        // ENOSYS rather than EPERM: C libraries then fall back to clone(2),
        // whose flags a filter can see.
        compile(
            BTreeMap::from([(libc::SYS_clone3, Vec::new())]),
            SeccompAction::Errno(libc::ENOSYS as u32),
        )?,
    ];
    if cfg!(target_arch = "x86_64") {
        filters.push(x32_guard());
    }
    Ok(filters)
}

/// Kills a process that uses an x32 system call number: the kernel gives those
/// the same architecture word as x86-64, so the number has to be looked at.
fn x32_guard() -> Vec<Instruction> {
    const LD_ABS: u16 = 0x20;
    const JGE: u16 = 0x35;
    const RET: u16 = 0x06;
    const X32_BIT: u32 = 0x4000_0000;
    const KILL_PROCESS: u32 = 0x8000_0000;
    const ALLOW: u32 = 0x7fff_0000;
    vec![
        Instruction {
            code: LD_ABS,
            jt: 0,
            jf: 0,
            k: 0,
        },
        // Numbers with the top bit set are -1 and its like (skipped calls).
        Instruction {
            code: JGE,
            jt: 2,
            jf: 0,
            k: 0x8000_0000,
        },
        Instruction {
            code: JGE,
            jt: 0,
            jf: 1,
            k: X32_BIT,
        },
        Instruction {
            code: RET,
            jt: 0,
            jf: 0,
            k: KILL_PROCESS,
        },
        Instruction {
            code: RET,
            jt: 0,
            jf: 0,
            k: ALLOW,
        },
    ]
}

fn refused(policy: &Policy, form: Form) -> io::Result<Rules> {
    let mut rules: Rules = BTreeMap::new();
    for number in ALWAYS {
        rules.insert(*number, Vec::new());
    }
    if !policy.relax.contains(&Relax::Ptrace) {
        for number in [
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
        ] {
            rules.insert(number, Vec::new());
        }
    }
    // ADDR_NO_RANDOMIZE, the one bit of personality(2) that weakens a process.
    rules.insert(
        libc::SYS_personality,
        vec![rule(vec![has(0, libc::ADDR_NO_RANDOMIZE as u64)?])?],
    );
    let namespaces = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ];
    rules.insert(
        libc::SYS_clone,
        namespaces
            .into_iter()
            .map(|flag| rule(vec![has(0, flag as u32 as u64)?]))
            .collect::<io::Result<_>>()?,
    );
    // Typing into a terminal (CVE-2017-5226); the kernel looks at the low 32
    // bits of the request, so only those are compared.
    rules.insert(
        libc::SYS_ioctl,
        vec![
            rule(vec![when(1, Op::Eq, libc::TIOCSTI)?])?,
            rule(vec![when(1, Op::Eq, libc::TIOCLINUX)?])?,
        ],
    );
    rules.insert(libc::SYS_socket, sockets(policy.network, form)?);
    set_user_id(&mut rules)?;
    Ok(rules)
}

/// Linux's obsolete way to packet sockets (packet(7)); `libc` deprecates the name.
const SOCK_PACKET: libc::c_int = 10;

/// Refused in every jail.
const ALWAYS: &[i64] = &[
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_syslog,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_vhangup,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
];

fn sockets(network: Network, form: Form) -> io::Result<Vec<SeccompRule>> {
    const UNIX: u64 = libc::AF_UNIX as u64;
    const INET: u64 = libc::AF_INET as u64;
    const INET6: u64 = libc::AF_INET6 as u64;
    const NETLINK: u64 = libc::AF_NETLINK as u64;
    if network == Network::Off && form == Form::Narrow {
        // Without a network namespace nothing but this keeps packets in:
        // Landlock knows TCP ports and neither UDP, MPTCP nor FASTOPEN.
        return Ok(vec![rule(vec![when(0, Op::Ne, UNIX)?])?]);
    }
    let mut rules = vec![
        rule(vec![
            when(0, Op::Ne, UNIX)?,
            when(0, Op::Ne, INET)?,
            when(0, Op::Ne, INET6)?,
            when(0, Op::Ne, NETLINK)?,
        ])?,
        // Route netlink alone: getifaddrs(3) needs it.
        rule(vec![
            when(0, Op::Eq, NETLINK)?,
            when(2, Op::Ne, libc::NETLINK_ROUTE as u64)?,
        ])?,
    ];
    for family in [INET, INET6] {
        for kind in [libc::SOCK_RAW, SOCK_PACKET] {
            // The type's low four bits; SOCK_CLOEXEC and SOCK_NONBLOCK are above.
            rules.push(rule(vec![
                when(0, Op::Eq, family)?,
                when(1, Op::MaskedEq(0xf), kind as u64)?,
            ])?);
        }
        // Default, TCP and UDP; no ping sockets, MPTCP, SCTP, DCCP.
        rules.push(rule(vec![
            when(0, Op::Eq, family)?,
            when(2, Op::Ne, 0)?,
            when(2, Op::Ne, libc::IPPROTO_TCP as u64)?,
            when(2, Op::Ne, libc::IPPROTO_UDP as u64)?,
        ])?);
    }
    Ok(rules)
}

/// No file of the workspace becomes set-user-id: `nosuid` makes the bit inert
/// inside, but the host would honour it.
fn set_user_id(rules: &mut Rules) -> io::Result<()> {
    const SUID: u64 = libc::S_ISUID as u64;
    const CREAT: u64 = libc::O_CREAT as u64;
    let mut add = |number: i64, conditions: Vec<SeccompCondition>| -> io::Result<()> {
        rules.entry(number).or_default().push(rule(conditions)?);
        Ok(())
    };
    add(libc::SYS_fchmod, vec![has(1, SUID)?])?;
    add(libc::SYS_fchmodat, vec![has(2, SUID)?])?;
    add(SYS_FCHMODAT2, vec![has(2, SUID)?])?;
    add(libc::SYS_mknodat, vec![has(2, SUID)?])?;
    add(libc::SYS_openat, vec![has(2, CREAT)?, has(3, SUID)?])?;
    #[cfg(target_arch = "x86_64")]
    {
        add(libc::SYS_chmod, vec![has(1, SUID)?])?;
        add(libc::SYS_mknod, vec![has(1, SUID)?])?;
        add(libc::SYS_open, vec![has(1, CREAT)?, has(2, SUID)?])?;
        add(libc::SYS_creat, vec![has(1, SUID)?])?;
    }
    Ok(())
}

/// `fchmodat2(2)`, Linux 6.6; one number on every architecture.
pub(super) const SYS_FCHMODAT2: i64 = 452;

/// The filter whose matches are shown to pid 1 before the kernel decides;
/// `None` when nothing is observed.
pub(super) fn notify(observe: Observe) -> io::Result<Option<Vec<Instruction>>> {
    if observe == Observe::Off {
        return Ok(None);
    }
    let mut rules: Rules = BTreeMap::new();
    for number in CHANGES {
        rules.insert(*number, Vec::new());
    }
    let wants_write = |flags: u8| -> io::Result<Vec<SeccompRule>> {
        Ok(vec![
            rule(vec![when(
                flags,
                Op::MaskedEq(libc::O_ACCMODE as u64),
                libc::O_WRONLY as u64,
            )?])?,
            rule(vec![when(
                flags,
                Op::MaskedEq(libc::O_ACCMODE as u64),
                libc::O_RDWR as u64,
            )?])?,
            rule(vec![has(flags, libc::O_CREAT as u64)?])?,
            rule(vec![has(flags, libc::O_TRUNC as u64)?])?,
        ])
    };
    if observe == Observe::All {
        for number in LOOKS {
            rules.insert(*number, Vec::new());
        }
    } else {
        rules.insert(libc::SYS_openat, wants_write(2)?);
        #[cfg(target_arch = "x86_64")]
        rules.insert(libc::SYS_open, wants_write(1)?);
    }
    let mut program = compile(rules, SeccompAction::Trace(MARK))?;
    for instruction in &mut program {
        if instruction.code == 0x06 && instruction.k == RET_TRACE | MARK {
            instruction.k = RET_USER_NOTIF;
        }
    }
    Ok(Some(program))
}

/// Calls that change something by name, or connect.
const CHANGES: &[i64] = &[
    libc::SYS_connect,
    libc::SYS_openat2,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_truncate,
    libc::SYS_fchmodat,
    SYS_FCHMODAT2,
    libc::SYS_fchownat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
];

/// Calls that read or look something up by name.
const LOOKS: &[i64] = &[
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_chdir,
    libc::SYS_execve,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_marked_answer_becomes_a_notification() {
        for observe in [Observe::Writes, Observe::All] {
            let program = notify(observe).expect("compiles").expect("a filter");
            let answers: Vec<u32> = program
                .iter()
                .filter(|op| op.code == 0x06)
                .map(|op| op.k)
                .collect();
            assert!(answers.contains(&RET_USER_NOTIF));
            assert!(!answers.iter().any(|k| k & 0xffff_0000 == RET_TRACE));
        }
        assert!(notify(Observe::Off).expect("compiles").is_none());
    }
}
