//! The system call filter: what Landlock does not cover.
//!
//! Landlock covers paths, TCP ports and signals. Other system calls reach beyond a run as well, because they take a
//! process id, a terminal or a kind of socket instead: limits and priorities of other processes, typing into a
//! terminal, sockets of the machine's daemons and of its hypervisor, alternatives to TCP, keyrings, shared memory
//! identified by a number, file systems that write to their layers when they are created, leases, and file system
//! requests that only need a read-only descriptor. They are refused here by their arguments. Everything else passes.
//!
//! The filter is built as data; [`crate::sys`] installs it.

use std::mem::offset_of;

use libc::{c_int, c_long, seccomp_data, sock_filter};

/// What the filter refuses in addition to its fixed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FilterScope {
    /// New unix sockets. Socket pairs are allowed.
    pub(crate) unix_sockets: bool,
    /// Sockets by which a process could reach another machine or port bypassing Landlock.
    pub(crate) network: Network,
    /// Whether all calls that name another process are refused. With a pid namespace it is enough that its guard, the
    /// first process, cannot be named.
    pub(crate) other_processes: bool,
    /// Shared memory, semaphores and queues identified by a number or by a name that is not a path: those of the whole
    /// machine, unless the run has an IPC namespace.
    pub(crate) shared_ipc: bool,
}

/// How much of the network a filter allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// All of it, or that of a network namespace.
    Open,
    /// TCP, whose connections Landlock refuses.
    TcpOnly,
    /// Nothing.
    Closed,
}

/// The accepted system call ABI: others of the same machine (x32, i386) would do the same under other numbers.
pub(crate) const ARCH: u32 = if cfg!(target_arch = "aarch64") { 0xC000_00B7 } else { 0xC000_003E };
const X32_CALLS: u32 = 0x4000_0000;

const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541C;
const PRIO_USER: u32 = 2;
const IOPRIO_WHO_USER: u32 = 3;
/// The kind of a socket is in the low bits of its type; flags are above.
const SOCKET_KIND: u32 = 0xF;

/// Requests that change a file system through a read-only descriptor, which Landlock does not check: btrfs subvolumes
/// and snapshots (created, removed, sealed), files sealed by fs-verity, keys and policies of encryption, and flags,
/// versions and attributes of files.
const FILE_SYSTEM_REQUESTS: [u32; 19] = [
    0x5000_9401, // BTRFS_IOC_SNAP_CREATE
    0x5000_940E, // BTRFS_IOC_SUBVOL_CREATE
    0x5000_940F, // BTRFS_IOC_SNAP_DESTROY
    0x5000_9417, // BTRFS_IOC_SNAP_CREATE_V2
    0x5000_9418, // BTRFS_IOC_SUBVOL_CREATE_V2
    0x4008_941A, // BTRFS_IOC_SUBVOL_SETFLAGS
    0xC0C8_9425, // BTRFS_IOC_SET_RECEIVED_SUBVOL
    0x5000_943F, // BTRFS_IOC_SNAP_DESTROY_V2
    0x4080_6685, // FS_IOC_ENABLE_VERITY
    0x800C_6613, // FS_IOC_SET_ENCRYPTION_POLICY
    0xC050_6617, // FS_IOC_ADD_ENCRYPTION_KEY
    0xC040_6618, // FS_IOC_REMOVE_ENCRYPTION_KEY
    0xC040_6619, // FS_IOC_REMOVE_ENCRYPTION_KEY_ALL_USERS
    0x4004_F50D, // F2FS_IOC_SET_PIN_FILE
    0x4008_6602, // FS_IOC_SETFLAGS
    0x401C_5820, // FS_IOC_FSSETXATTR
    0x4008_7602, // FS_IOC_SETVERSION
    0x4008_6604, // EXT4_IOC_SETVERSION
    0x4004_7211, // FAT_IOCTL_SET_ATTRIBUTES
];

/// A lease on a directory, or on the name of a file. Linux 6.19.
const F_SETDELEG: u32 = 1024 + 16;

/// Sets the attributes of a file by path. The number is the same on every architecture.
const SYS_FILE_SETATTR: c_long = 469;

/// System V IPC, and message queues, whose names are not paths.
const SHARED_IPC: [c_long; 14] = [
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_mq_notify,
];

/// A condition on one argument of a call.
#[derive(Clone, Copy, Debug)]
struct Condition {
    /// Which argument.
    argument: u8,
    /// Its upper half instead of its lower.
    upper: bool,
    mask: u32,
    compare: Compare,
}

#[derive(Clone, Copy, Debug)]
enum Compare {
    Equal(u32),
    Differs(u32),
    /// At least one bit of the mask is set.
    AnyBit,
}

/// A system call that fails with an error, if all conditions hold.
struct Refusal {
    call: c_long,
    conditions: Vec<Condition>,
    errno: c_int,
}

const fn when(argument: u8, mask: u32, compare: Compare) -> Condition {
    Condition { argument, upper: false, mask, compare }
}

const fn equal(argument: u8, value: u32) -> Condition {
    when(argument, u32::MAX, Compare::Equal(value))
}

const fn differs(argument: u8, value: u32) -> Condition {
    when(argument, u32::MAX, Compare::Differs(value))
}

/// Lists what is refused.
fn refusals(scope: FilterScope) -> Vec<Refusal> {
    let mut list = Vec::new();
    let mut refuse = |call: c_long, conditions: &[Condition], errno: c_int| {
        list.push(Refusal { call, conditions: conditions.to_vec(), errno });
    };
    // It could do everything below without a system call visible here.
    refuse(libc::SYS_io_uring_setup, &[], libc::ENOSYS);
    // Keys belong to the person, not to a process tree.
    for call in [libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl] {
        refuse(call, &[], libc::ENOSYS);
    }
    for request in [TIOCSTI, TIOCLINUX] {
        refuse(libc::SYS_ioctl, &[equal(1, request)], libc::EPERM);
    }
    for request in FILE_SYSTEM_REQUESTS {
        refuse(libc::SYS_ioctl, &[equal(1, request)], libc::EPERM);
    }
    refuse(SYS_FILE_SETATTR, &[], libc::EPERM);
    // A handle names a file without its path, bypassing any mount over it.
    refuse(libc::SYS_open_by_handle_at, &[], libc::EPERM);
    // An overlay empties its work directory when it is created, before anything is mounted: Landlock is not consulted.
    for call in [libc::SYS_fsopen, libc::SYS_fspick] {
        refuse(call, &[], libc::ENOSYS);
    }
    // A lease on a file that the person owns needs no write permission, and delays the person's own access to it.
    for request in [libc::F_SETLEASE as u32, F_SETDELEG] {
        refuse(libc::SYS_fcntl, &[equal(1, request)], libc::EINVAL);
    }
    for call in SHARED_IPC.into_iter().filter(|_| scope.shared_ipc) {
        refuse(call, &[], libc::ENOSYS);
    }
    sockets(scope, &mut refuse);
    processes(scope, &mut refuse);
    list
}

#[expect(clippy::cast_sign_loss, reason = "families, kinds and protocols are small and positive")]
fn sockets(scope: FilterScope, refuse: &mut dyn FnMut(c_long, &[Condition], c_int)) {
    let family = |family: c_int| equal(0, family as u32);
    if scope.unix_sockets {
        refuse(libc::SYS_socket, &[family(libc::AF_UNIX)], libc::EPERM);
        // A datagram socket of a pair can send to any address. Only streams and sequenced packets stay with their peer.
        let other_kinds = [libc::SOCK_STREAM, libc::SOCK_SEQPACKET]
            .map(|kind| when(1, SOCKET_KIND, Compare::Differs(kind as u32)));
        refuse(libc::SYS_socketpair, &other_kinds, libc::EPERM);
    }
    // Families that lead to the hypervisor, to devices, or around the rules for TCP.
    let known = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let unknown = known.map(|family| differs(0, family as u32));
    refuse(libc::SYS_socket, &unknown, libc::EAFNOSUPPORT);
    let no_pair = [differs(0, libc::AF_UNIX as u32)];
    refuse(libc::SYS_socketpair, &no_pair, libc::EAFNOSUPPORT);
    for internet in [family(libc::AF_INET), family(libc::AF_INET6)] {
        match scope.network {
            Network::Open => {}
            Network::Closed => refuse(libc::SYS_socket, &[internet], libc::EACCES),
            Network::TcpOnly => {
                let no_stream = when(1, SOCKET_KIND, Compare::Differs(libc::SOCK_STREAM as u32));
                refuse(libc::SYS_socket, &[internet, no_stream], libc::EACCES);
                let other = [differs(2, 0), differs(2, libc::IPPROTO_TCP as u32)];
                let multipath = [internet, other[0], other[1]];
                refuse(libc::SYS_socket, &multipath, libc::EPROTONOSUPPORT);
            }
        }
    }
    // Messages from process to process, without a path or a port.
    let messages = [family(libc::AF_NETLINK), equal(2, libc::NETLINK_USERSOCK as u32)];
    refuse(libc::SYS_socket, &messages, libc::EPROTONOSUPPORT);
    if scope.network != Network::Open {
        let other_netlink = [family(libc::AF_NETLINK), differs(2, libc::NETLINK_ROUTE as u32)];
        refuse(libc::SYS_socket, &other_netlink, libc::EPROTONOSUPPORT);
        // Connects by sending, which Landlock does not check.
        for (call, flags) in
            [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)]
        {
            let fast_open = when(flags, libc::MSG_FASTOPEN as u32, Compare::AnyBit);
            refuse(call, &[fast_open], libc::EOPNOTSUPP);
        }
    }
}

/// Process 0 is the caller itself. Threads of a process cannot be distinguished from others, so it cannot name these
/// either.
fn processes(scope: FilterScope, refuse: &mut dyn FnMut(c_long, &[Condition], c_int)) {
    let other = |argument| {
        if scope.other_processes { differs(argument, 0) } else { equal(argument, 1) }
    };
    // Reading the limits of other processes is harmless.
    for upper in [false, true] {
        let new_limit = Condition { upper, ..differs(2, 0) };
        refuse(libc::SYS_prlimit64, &[differs(0, 0), new_limit], libc::EPERM);
    }
    for call in [
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setaffinity,
    ] {
        refuse(call, &[other(0)], libc::EPERM);
    }
    for (call, user) in
        [(libc::SYS_setpriority, PRIO_USER), (libc::SYS_ioprio_set, IOPRIO_WHO_USER)]
    {
        refuse(call, &[other(1)], libc::EPERM);
        refuse(call, &[equal(0, user)], libc::EPERM);
    }
}

/// Builds the filter in the kernel's format.
pub(crate) fn program(scope: FilterScope) -> Vec<sock_filter> {
    let mut program = vec![
        load(offset_of!(seccomp_data, arch)),
        jump_if_equal(ARCH, 1, 0),
        refuse_with(libc::ENOSYS),
        load(offset_of!(seccomp_data, nr)),
        op(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32_CALLS),
        refuse_with(libc::ENOSYS),
    ];
    let mut rest = refusals(scope);
    while let Some(first) = rest.first() {
        let call = first.call;
        let (same, others): (Vec<Refusal>, Vec<Refusal>) =
            rest.into_iter().partition(|refusal| refusal.call == call);
        rest = others;
        let mut block: Vec<sock_filter> = same.iter().flat_map(refusal).collect();
        block.push(op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
        // If the number does not match, it stays loaded for the next comparison.
        program.push(jump_if_equal(number(call), 0, length(&block)));
        program.extend(block);
    }
    program.push(op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
    program
}

/// One refusal: its conditions, each of which jumps past the end if it does not hold, and the result.
fn refusal(refusal: &Refusal) -> Vec<sock_filter> {
    let mut reversed = vec![refuse_with(refusal.errno)];
    for condition in refusal.conditions.iter().rev() {
        let past = length(&reversed);
        let jump = libc::BPF_JMP | libc::BPF_K;
        reversed.push(match condition.compare {
            Compare::Equal(value) => op(jump | libc::BPF_JEQ, 0, past, value),
            Compare::Differs(value) => op(jump | libc::BPF_JEQ, past, 0, value),
            Compare::AnyBit => op(jump | libc::BPF_JSET, 0, past, condition.mask),
        });
        if condition.mask != u32::MAX && !matches!(condition.compare, Compare::AnyBit) {
            reversed.push(op(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, condition.mask));
        }
        let half = if condition.upper { 4 } else { 0 };
        let at = offset_of!(seccomp_data, args) + 8 * usize::from(condition.argument) + half;
        reversed.push(load(at));
    }
    reversed.reverse();
    reversed
}

fn length(block: &[sock_filter]) -> u8 {
    u8::try_from(block.len()).expect("the rules for one call are a few dozen instructions")
}

pub(crate) fn number(call: c_long) -> u32 {
    u32::try_from(call).expect("the numbers of system calls are small")
}

#[expect(clippy::cast_possible_truncation, reason = "BPF codes fit 16 bits")]
pub(crate) const fn op(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}

#[expect(clippy::cast_possible_truncation, reason = "offsets in a struct of 64 bytes")]
pub(crate) const fn load(offset: usize) -> sock_filter {
    op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset as u32)
}

pub(crate) const fn jump_if_equal(value: u32, if_equal: u8, if_not: u8) -> sock_filter {
    op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, if_equal, if_not, value)
}

#[expect(clippy::cast_sign_loss, reason = "errno values are positive")]
const fn refuse_with(errno: c_int) -> sock_filter {
    op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: FilterScope = FilterScope {
        unix_sockets: true,
        network: Network::TcpOnly,
        other_processes: true,
        shared_ipc: true,
    };
    const LAX: FilterScope = FilterScope {
        unix_sockets: false,
        network: Network::Open,
        other_processes: false,
        shared_ipc: false,
    };

    /// Runs a filter like the kernel; 0 lets the call pass.
    fn answer(scope: FilterScope, arch: u32, call: c_long, args: [u64; 6]) -> u32 {
        let program = program(scope);
        let mut data = vec![0_u8; size_of::<seccomp_data>()];
        data[0..4].copy_from_slice(&number(call).to_le_bytes());
        data[4..8].copy_from_slice(&arch.to_le_bytes());
        for (index, argument) in args.iter().enumerate() {
            data[16 + 8 * index..][..8].copy_from_slice(&argument.to_le_bytes());
        }
        let (mut at, mut loaded) = (0, 0);
        loop {
            let step = program[at];
            at += 1;
            let code = u32::from(step.code);
            let holds = match code & 0xF0 {
                libc::BPF_JEQ => loaded == step.k,
                libc::BPF_JGE => loaded >= step.k,
                libc::BPF_JSET => loaded & step.k != 0,
                _ => false,
            };
            match code & 0x07 {
                libc::BPF_LD => {
                    let from = step.k as usize;
                    loaded = u32::from_le_bytes(data[from..from + 4].try_into().unwrap());
                }
                libc::BPF_ALU => loaded &= step.k,
                libc::BPF_JMP => at += usize::from(if holds { step.jt } else { step.jf }),
                libc::BPF_RET => {
                    return if step.k == libc::SECCOMP_RET_ALLOW { 0 } else { step.k & 0xFFFF };
                }
                other => panic!("{other}"),
            }
        }
    }

    #[expect(clippy::cast_sign_loss, reason = "small positive numbers")]
    fn of(scope: FilterScope, call: c_long, args: &[i64]) -> i32 {
        let mut all = [0; 6];
        for (into, from) in all.iter_mut().zip(args) {
            *into = *from as u64;
        }
        i32::try_from(answer(scope, ARCH, call, all)).unwrap()
    }

    #[test]
    fn other_tables_of_system_calls_are_refused_whole() {
        let i386 = 0x4000_0003;
        let read = answer(LAX, i386, libc::SYS_read, [0; 6]);
        assert_eq!(i32::try_from(read).unwrap(), libc::ENOSYS);
        let x32 = c_long::from(0x4000_0000) + libc::SYS_socket;
        assert_eq!(of(LAX, x32, &[]), libc::ENOSYS);
        assert_eq!(of(STRICT, libc::SYS_read, &[0, 1, 2]), 0);
    }

    #[test]
    fn only_what_reaches_others_is_refused() {
        let [inet, inet6] = [i64::from(libc::AF_INET), i64::from(libc::AF_INET6)];
        let [unix, netlink] = [i64::from(libc::AF_UNIX), i64::from(libc::AF_NETLINK)];
        let [stream, datagram] = [i64::from(libc::SOCK_STREAM), i64::from(libc::SOCK_DGRAM)];
        let flags = i64::from(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
        let fast_open = i64::from(libc::MSG_FASTOPEN | libc::MSG_NOSIGNAL);
        let pointer = 0x7F00_0000_0000;
        for (call, args, strict, lax) in [
            (libc::SYS_socket, &[unix, stream, 0][..], libc::EPERM, 0),
            (libc::SYS_socketpair, &[unix, stream | flags, 0], 0, 0),
            (libc::SYS_socketpair, &[unix, 5, 0], 0, 0),
            (libc::SYS_socketpair, &[unix, datagram | flags, 0], libc::EPERM, 0),
            (libc::SYS_socketpair, &[unix, 3, 0], libc::EPERM, 0),
            (libc::SYS_socketpair, &[30, stream, 0], libc::EAFNOSUPPORT, libc::EAFNOSUPPORT),
            (libc::SYS_socket, &[inet, stream | flags, 0], 0, 0),
            (libc::SYS_socket, &[inet6, stream, 6], 0, 0),
            (libc::SYS_socket, &[inet, stream, 262], libc::EPROTONOSUPPORT, 0),
            (libc::SYS_socket, &[inet6, stream, 132], libc::EPROTONOSUPPORT, 0),
            (libc::SYS_socket, &[inet, datagram | flags, 0], libc::EACCES, 0),
            (libc::SYS_socket, &[inet6, 3, 1], libc::EACCES, 0),
            (libc::SYS_socket, &[netlink, 3, 0], 0, 0),
            (libc::SYS_socket, &[netlink, 3, 15], libc::EPROTONOSUPPORT, 0),
            (libc::SYS_socket, &[netlink, 3, 2], libc::EPROTONOSUPPORT, libc::EPROTONOSUPPORT),
            (libc::SYS_socket, &[netlink, 3, 16], libc::EPROTONOSUPPORT, 0),
            (libc::SYS_socket, &[40, stream, 0], libc::EAFNOSUPPORT, libc::EAFNOSUPPORT),
            (libc::SYS_socket, &[17, 3, 0], libc::EAFNOSUPPORT, libc::EAFNOSUPPORT),
            (libc::SYS_sendto, &[3, pointer, 1, fast_open], libc::EOPNOTSUPP, 0),
            (libc::SYS_sendto, &[3, pointer, 1, 0x4000], 0, 0),
            (libc::SYS_sendmsg, &[3, pointer, fast_open], libc::EOPNOTSUPP, 0),
            (libc::SYS_sendmmsg, &[3, pointer, 1, fast_open], libc::EOPNOTSUPP, 0),
            (libc::SYS_prlimit64, &[0, 7, pointer, 0], 0, 0),
            (libc::SYS_prlimit64, &[42, 7, 0, pointer], 0, 0),
            (libc::SYS_prlimit64, &[42, 7, pointer, 0], libc::EPERM, libc::EPERM),
            (libc::SYS_prlimit64, &[42, 7, 0x1000, 0], libc::EPERM, libc::EPERM),
            (libc::SYS_sched_setaffinity, &[1, 8, pointer], libc::EPERM, libc::EPERM),
            (libc::SYS_sched_setscheduler, &[42, 0, pointer], libc::EPERM, 0),
            (libc::SYS_sched_setaffinity, &[0, 8, pointer], 0, 0),
            (libc::SYS_setpriority, &[0, 0, 10], 0, 0),
            (libc::SYS_setpriority, &[0, 42, 10], libc::EPERM, 0),
            (libc::SYS_setpriority, &[0, 1, 10], libc::EPERM, libc::EPERM),
            (libc::SYS_setpriority, &[2, 0, 10], libc::EPERM, libc::EPERM),
            (libc::SYS_ioprio_set, &[1, 0, 0], 0, 0),
            (libc::SYS_ioprio_set, &[3, 0, 0], libc::EPERM, libc::EPERM),
            (libc::SYS_ioctl, &[0, 0x5412, pointer], libc::EPERM, libc::EPERM),
            (libc::SYS_ioctl, &[0, 0x1_0000_541C, pointer], libc::EPERM, libc::EPERM),
            (libc::SYS_ioctl, &[0, 0x5413, pointer], 0, 0),
            (libc::SYS_ioctl, &[3, 0x5000_9417, pointer], libc::EPERM, libc::EPERM),
            (libc::SYS_ioctl, &[3, 0xC040_6618, pointer], libc::EPERM, libc::EPERM),
            (libc::SYS_ioctl, &[3, 0x4008_6602, pointer], libc::EPERM, libc::EPERM),
            (libc::SYS_ioctl, &[3, 0x8008_6601, pointer], 0, 0),
            (SYS_FILE_SETATTR, &[0, pointer], libc::EPERM, libc::EPERM),
            (libc::SYS_fsopen, &[pointer, 0], libc::ENOSYS, libc::ENOSYS),
            (libc::SYS_fcntl, &[3, 1024, 1], libc::EINVAL, libc::EINVAL),
            (libc::SYS_fcntl, &[3, 1040, pointer], libc::EINVAL, libc::EINVAL),
            (libc::SYS_fcntl, &[3, 4, 0x800], 0, 0),
            (libc::SYS_open_by_handle_at, &[3, pointer, 0], libc::EPERM, libc::EPERM),
            (libc::SYS_shmat, &[0, 0, 0], libc::ENOSYS, 0),
            (libc::SYS_mq_unlink, &[pointer], libc::ENOSYS, 0),
            (libc::SYS_keyctl, &[], libc::ENOSYS, libc::ENOSYS),
            (libc::SYS_io_uring_setup, &[], libc::ENOSYS, libc::ENOSYS),
        ] {
            assert_eq!(
                (of(STRICT, call, args), of(LAX, call, args)),
                (strict, lax),
                "{call} {args:x?}"
            );
        }
        let closed = FilterScope { network: Network::Closed, ..STRICT };
        assert_eq!(of(closed, libc::SYS_socket, &[inet, stream, 0]), libc::EACCES);
    }
}
