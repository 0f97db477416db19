"""The system calls that a sandbox refuses, as a BPF program: what namespaces alone leave open.

A call is refused with an error, never by a signal: a program that tries something unusual goes on without it. The list
follows what container engines refuse by default, and adds what would leave a set-uid file behind in the workspace.
"""

from __future__ import annotations

import errno
import platform
import socket
import struct
from dataclasses import dataclass

_LD_W_ABS, _JMP_JEQ, _JMP_JSET, _JMP_JGE, _RET = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NR, _ARCH, _ARGUMENTS = 0, 4, 16
_X32 = 0x40000000

TIOCSTI, TIOCLINUX = 0x5412, 0x541C
_SUID_OR_SGID = 0o6000
_CLONE_NEW = 0x7E020000  # every namespace flag that `clone` takes
_O_CREAT = 0o100

_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, 16)
"""Kinds of sockets that a network namespace confines; 16 is AF_NETLINK. AF_VSOCK, for one, isn't confined."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A kind of processor: its audit number and the numbers of the calls that we name."""

    audit: int
    calls: dict[str, int]
    compat: bool
    """Whether calls of another numbering have the same audit number (x32)."""


_X86_64 = Machine(
    0xC000003E,
    {
        "ioctl": 16, "socket": 41, "socketpair": 53, "clone": 56, "creat": 85, "chmod": 90, "fchmod": 91,
        "syslog": 103, "uselib": 134, "mknod": 133, "ustat": 136, "sysfs": 139, "_sysctl": 156, "adjtimex": 159,
        "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169,
        "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173, "create_module": 174, "init_module": 175,
        "delete_module": 176, "quotactl": 179, "lookup_dcookie": 212, "clock_settime": 227, "add_key": 248,
        "request_key": 249, "keyctl": 250, "kexec_load": 246, "migrate_pages": 256, "openat": 257, "mknodat": 259,
        "fchmodat": 268, "unshare": 272, "move_pages": 279, "perf_event_open": 298, "fanotify_init": 300,
        "open_by_handle_at": 304, "clock_adjtime": 305, "setns": 308, "finit_module": 313, "kexec_file_load": 320,
        "bpf": 321, "userfaultfd": 323, "pivot_root": 155, "chroot": 161, "open": 2, "io_uring_setup": 425,
        "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429, "fsopen": 430,
        "fsconfig": 431, "fsmount": 432, "fspick": 433, "clone3": 435, "openat2": 437, "mount_setattr": 442,
        "quotactl_fd": 443, "fchmodat2": 452, "open_tree_attr": 467, "vhangup": 153,
    },
    compat=True,
)  # fmt: skip
_AARCH64 = Machine(
    0xC00000B7,
    {
        "ioctl": 29, "mknodat": 33, "umount2": 39, "mount": 40, "pivot_root": 41, "chroot": 51, "fchmod": 52,
        "fchmodat": 53, "openat": 56, "vhangup": 58, "quotactl": 60, "acct": 89, "unshare": 97, "kexec_load": 104,
        "init_module": 105, "delete_module": 106, "clock_settime": 112, "syslog": 116, "reboot": 142,
        "sethostname": 161, "setdomainname": 162, "settimeofday": 170, "adjtimex": 171, "socket": 198,
        "socketpair": 199, "add_key": 217, "request_key": 218, "keyctl": 219, "clone": 220, "swapon": 224,
        "swapoff": 225, "migrate_pages": 238, "move_pages": 239, "perf_event_open": 241, "fanotify_init": 262,
        "open_by_handle_at": 265, "clock_adjtime": 266, "setns": 268, "finit_module": 273, "bpf": 280,
        "userfaultfd": 282, "kexec_file_load": 294, "io_uring_setup": 425, "io_uring_enter": 426,
        "io_uring_register": 427, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432,
        "fspick": 433, "clone3": 435, "openat2": 437, "mount_setattr": 442, "quotactl_fd": 443, "fchmodat2": 452,
        "open_tree_attr": 467,
    },
    compat=False,
)  # fmt: skip
MACHINES = {"x86_64": _X86_64, "aarch64": _AARCH64}

_REFUSED = (
    "acct", "add_key", "adjtimex", "bpf", "chroot", "clock_adjtime", "clock_settime", "create_module", "delete_module",
    "fanotify_init", "finit_module", "fsconfig", "fsmount", "fsopen", "fspick", "init_module", "ioperm", "iopl",
    "kexec_file_load", "kexec_load", "keyctl", "lookup_dcookie", "migrate_pages", "mount", "mount_setattr",
    "move_mount", "move_pages", "open_by_handle_at", "open_tree", "open_tree_attr", "perf_event_open", "pivot_root",
    "quotactl", "quotactl_fd", "reboot", "request_key", "setdomainname", "sethostname", "setns", "settimeofday",
    "swapoff", "swapon", "sysfs", "syslog", "_sysctl", "umount2", "unshare", "uselib", "userfaultfd", "ustat",
    "vhangup",
)  # fmt: skip
_NOT_THERE = ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register", "openat2")
"""As on an older kernel: a C library falls back from `clone3` to `clone`, whose flags can be looked at (those of
`clone3` lie in memory), and from `openat2`, whose mode does, to `openat`."""
_MODES = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mknod": 1, "mknodat": 2, "creat": 1}
"""Calls that set a mode, and where it stands."""
_CREATING = {"open": (1, 2), "openat": (2, 3)}
"""Where flags and mode stand; the mode means something only where the flags create."""


def program(machine: str = "") -> bytes | None:
    """The filter for `bwrap --seccomp`; None where we don't know the machine's numbers."""
    known = MACHINES.get(machine or platform.machine())
    return None if known is None else b"".join(_instructions(known))


def _instructions(machine: Machine) -> list[bytes]:
    calls = machine.calls
    code = [_load(_ARCH), _skip_if(machine.audit, 1), _refuse(errno.ENOSYS), _load(_NR)]
    if machine.compat:
        code += [_op(_JMP_JGE, _X32, 0, 1), _refuse(errno.ENOSYS)]
    for name in _REFUSED:
        if name in calls:
            code += _when(calls[name], [_refuse(errno.EPERM)])
    for name in _NOT_THERE:
        code += _when(calls[name], [_refuse(errno.ENOSYS)])
    code += _when(calls["clone"], _if_any(0, _CLONE_NEW, errno.EPERM))
    code += _when(calls["ioctl"], [*_if_equal(1, TIOCSTI, errno.EPERM), *_if_equal(1, TIOCLINUX, errno.EPERM)])
    for name in ("socket", "socketpair"):
        code += _when(calls[name], _unless_one_of(0, _FAMILIES, errno.EAFNOSUPPORT))
    for name, argument in _MODES.items():
        if name in calls:
            code += _when(calls[name], _if_any(argument, _SUID_OR_SGID, errno.EPERM))
    for name, (flags, mode) in _CREATING.items():
        if name in calls:
            code += _when(calls[name], _if_creates(flags, mode))
    return [*code, _op(_RET, _ALLOW)]


def _op(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def _load(offset: int) -> bytes:
    return _op(_LD_W_ABS, offset)


def _argument(number: int) -> bytes:
    """Its lower half: flags, modes, families and requests are 32 bits (both machines are little-endian)."""
    return _load(_ARGUMENTS + 8 * number)


def _skip_if(value: int, count: int) -> bytes:
    return _op(_JMP_JEQ, value, count, 0)


def _refuse(error: int) -> bytes:
    return _op(_RET, _ERRNO | error)


def _when(call: int, then: list[bytes]) -> list[bytes]:
    """`then` for this call; behind it the number of the call is loaded again."""
    return [_op(_JMP_JEQ, call, 0, len(then) + 1), *then, _load(_NR)]


def _if_any(argument: int, bits: int, error: int) -> list[bytes]:
    return [_argument(argument), _op(_JMP_JSET, bits, 0, 1), _refuse(error)]


def _if_equal(argument: int, value: int, error: int) -> list[bytes]:
    return [_argument(argument), _op(_JMP_JEQ, value, 0, 1), _refuse(error)]


def _unless_one_of(argument: int, values: tuple[int, ...], error: int) -> list[bytes]:
    """For one of the values, jump over what is left of the list and the refusal."""
    tests = [_op(_JMP_JEQ, value, len(values) - number, 0) for number, value in enumerate(values)]
    return [_argument(argument), *tests, _refuse(error)]


def _if_creates(flags: int, mode: int) -> list[bytes]:
    return [_argument(flags), _op(_JMP_JSET, _O_CREAT, 0, 3), *_if_any(mode, _SUID_OR_SGID, errno.EPERM)]
