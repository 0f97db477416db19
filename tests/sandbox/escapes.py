"""Attempts to get out of a sandbox, each a function that returns whether it got out. Run as a program, by itself:

    python3 escapes.py FACTS.json

FACTS says what is outside. Every attempt runs in a process of its own; the result is a JSON object, name to true or
false (or a text, where the attempt could not even be made). All of them are harmless where they succeed.
"""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import resource
import socket
import stat
import struct
import subprocess
import sys
import termios
import time

ATTEMPTS = {}
FACTS = {}
LIBC = ctypes.CDLL(None, use_errno=True)
SYSCALLS = {
    "x86_64": {"add_key": 248, "keyctl": 250, "init_module": 175, "pidfd_open": 434, "process_vm_readv": 310},
    "aarch64": {"add_key": 217, "keyctl": 219, "init_module": 105, "pidfd_open": 434, "process_vm_readv": 270},
}


def attempt(function):
    ATTEMPTS[function.__name__.replace("_", " ")] = function
    return function


def syscall(name, *arguments):
    ctypes.set_errno(0)
    return LIBC.syscall(SYSCALLS[os.uname().machine][name], *arguments)


def holds(path, what="SECRET"):
    with open(path, "rb") as file:
        return what.encode() in file.read(1 << 20)


def opens(path, flags):
    os.close(os.open(path, flags))
    return True


def shell(script):
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, timeout=20, check=False)
    return "ESCAPED" in done.stdout


# --- paths and links --------------------------------------------------------------------------------------------------


@attempt
def read_a_file_outside_by_its_path():
    return holds(FACTS["secret"])


@attempt
def read_a_file_outside_by_going_up():
    return holds("../" * 40 + FACTS["secret"].lstrip("/"))


@attempt
def read_a_file_outside_through_a_link():
    os.symlink(FACTS["secret"], "link-to-secret")
    return holds("link-to-secret")


@attempt
def read_a_file_outside_through_a_link_that_was_there():
    return holds("planted-link")


@attempt
def write_a_file_outside_by_its_path():
    with open(FACTS["outside"] + "/written", "w") as file:
        file.write("x")
    return True


@attempt
def write_a_file_outside_through_a_link_to_its_directory():
    os.symlink(FACTS["outside"], "link-to-outside")
    with open("link-to-outside/written-too", "w") as file:
        file.write("x")
    return True


@attempt
def make_a_hard_link_to_a_file_outside():
    os.link(FACTS["secret"], "hard-link")
    return True


@attempt
def move_a_file_outside():
    os.rename(FACTS["outside"] + "/to-move", FACTS["outside"] + "/moved")
    return True


@attempt
def read_a_key_in_the_home_of_the_user():
    return holds(FACTS["home"] + "/.ssh/id_rsa")


@attempt
def write_into_the_home_of_the_user():
    with open(FACTS["home"] + "/.bashrc", "a") as file:
        file.write("# x\n")
    return True


@attempt
def read_the_journal_of_the_run():
    return holds(FACTS["journal"])


@attempt
def write_into_the_journal_of_the_run():
    with open(FACTS["journal"], "a") as file:
        file.write("x")
    return True


@attempt
def change_the_store():
    with open(FACTS["store"] + "/packs", "a") as file:
        file.write("x")
    return True


@attempt
def remove_from_the_store():
    os.unlink(FACTS["store"] + "/to-remove")
    return True


@attempt
def read_a_file_that_only_root_may_read():
    return holds("/etc/shadow", ":")


@attempt
def write_into_usr():
    path = "/usr/local/agentrewind-escape"
    open(path, "w").close()
    os.unlink(path)
    return True


@attempt
def write_into_etc():
    path = "/etc/agentrewind-escape"
    open(path, "w").close()
    os.unlink(path)
    return True


@attempt
def write_into_var():
    path = "/var/agentrewind-escape"
    open(path, "w").close()
    os.unlink(path)
    return True


@attempt
def change_the_mode_of_a_file_outside():
    os.chmod(FACTS["secret"], 0o644)
    return True


# --- devices and files with powers -----------------------------------------------------------------------------------


@attempt
def open_a_disk():
    disks = [name for name in sorted(os.listdir("/dev")) if stat.S_ISBLK(os.lstat(f"/dev/{name}").st_mode)]
    return opens(f"/dev/{disks[0]}", os.O_RDONLY)


@attempt
def make_a_device_and_open_it():
    major, minor = FACTS["disk"]
    os.mknod("disk", 0o600 | stat.S_IFBLK, os.makedev(major, minor))
    return opens("disk", os.O_RDONLY)


@attempt
def open_the_memory_of_the_machine():
    return any(_opens(path) for path in ("/dev/mem", "/dev/kmem", "/proc/kcore", "/dev/kmsg"))


def _opens(path):
    try:
        return opens(path, os.O_RDONLY)
    except OSError:
        return False


@attempt
def become_root_by_a_setuid_program():
    said = subprocess.run(["./setuid-id", "-u"], capture_output=True, text=True, check=False).stdout.strip()
    return said == "0" and os.getuid() != 0


@attempt
def leave_a_setuid_file_behind_by_chmod():
    open("left", "w").close()
    os.chmod("left", 0o4755)
    return bool(os.stat("left").st_mode & stat.S_ISUID)


@attempt
def leave_a_setuid_file_behind_by_creating_it():
    os.close(os.open("left-too", os.O_WRONLY | os.O_CREAT, 0o4755))
    return bool(os.stat("left-too").st_mode & stat.S_ISUID)


@attempt
def leave_a_setgid_file_behind():
    open("left-three", "w").close()
    os.chmod("left-three", 0o2755)
    return bool(os.stat("left-three").st_mode & stat.S_ISGID)


# --- other processes --------------------------------------------------------------------------------------------------


@attempt
def signal_a_process_outside():
    os.kill(FACTS["victim"], 0)
    return True


@attempt
def end_a_process_outside_by_its_name():
    return shell(f"pkill -f '[m]{FACTS['mark'][1:]}-to-end' && echo ESCAPED")


@attempt
def trace_a_process_outside():
    done = LIBC.ptrace(16, FACTS["victim"], 0, 0) == 0
    if done:
        os.waitpid(FACTS["victim"], 0x40000000)
        LIBC.ptrace(17, FACTS["victim"], 0, 0)
    return done


@attempt
def read_the_environment_of_a_process_outside():
    return holds(f"/proc/{FACTS['victim']}/environ")


@attempt
def read_the_environment_of_any_process():
    found = False
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                found = found or holds(f"/proc/{name}/environ", FACTS["key"])
    return found


@attempt
def find_a_secret_in_the_words_of_any_process():
    found = False
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                found = found or holds(f"/proc/{name}/cmdline", FACTS["word"])
    return found


@attempt
def go_through_the_root_of_a_process_outside():
    return holds(f"/proc/{FACTS['victim']}/root{FACTS['secret']}")


@attempt
def go_through_the_root_of_the_first_process():
    return holds(f"/proc/1/root{FACTS['secret']}")


@attempt
def go_through_the_directory_of_a_process_outside():
    return holds(f"/proc/{FACTS['victim']}/cwd/secret")


@attempt
def go_through_an_open_file_of_a_process_outside():
    return any(holds(f"/proc/{FACTS['victim']}/fd/{n}") for n in os.listdir(f"/proc/{FACTS['victim']}/fd") if n == "9")


@attempt
def read_the_memory_of_a_process_outside():
    with open(f"/proc/{FACTS['victim']}/mem", "rb"):
        return True


@attempt
def take_hold_of_a_process_outside():
    return syscall("pidfd_open", FACTS["victim"], 0) >= 0


@attempt
def change_the_priority_of_a_process_outside():
    os.setpriority(os.PRIO_PROCESS, FACTS["victim"], 5)
    return True


@attempt
def change_the_limits_of_a_process_outside():
    resource.prlimit(FACTS["victim"], resource.RLIMIT_CORE, (0, 0))
    return True


@attempt
def stay_behind_as_a_daemon():
    subprocess.Popen(
        ["/bin/sh", "-c", "sleep 1; echo x > written-late"],
        start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return "see written-late"


# --- what is inherited ------------------------------------------------------------------------------------------------


@attempt
def read_a_variable():
    return "SECRET" in os.environ.get("DATABASE_PASSWORD", "") + os.environ.get("AWS_SECRET_ACCESS_KEY", "")


@attempt
def read_an_open_file_that_was_inherited():
    found = False
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if int(name) > 2:
                found = found or b"SECRET" in os.pread(int(name), 4096, 0)
    return found


@attempt
def read_what_was_meant_for_the_user():
    os.set_blocking(0, False)
    return b"SECRET" in (os.read(0, 4096) or b"")


@attempt
def type_into_the_terminal_of_the_user():
    fd = os.open("/dev/tty", os.O_RDWR)
    fcntl.ioctl(fd, termios.TIOCSTI, b"#")
    return True


@attempt
def read_a_key_of_the_keyring():
    found = syscall("keyctl", 10, -4, b"user", FACTS["mark"].encode(), 0)
    if found < 0:
        return False
    buffer = ctypes.create_string_buffer(100)
    return syscall("keyctl", 11, found, buffer, 100) > 0 and b"SECRET" in buffer.raw


@attempt
def read_shared_memory_of_system_v():
    LIBC.shmat.restype = ctypes.c_void_p
    segment = LIBC.shmget(FACTS["shm"], 0, 0)
    if segment < 0:
        return False
    at = LIBC.shmat(segment, None, 0o10000)
    return at not in (None, ctypes.c_void_p(-1).value) and b"SECRET" in ctypes.string_at(at, 16)


@attempt
def read_shared_memory_of_posix():
    return holds(f"/dev/shm/{FACTS['mark']}")


# --- network ----------------------------------------------------------------------------------------------------------


def _asks(family, address, kind=socket.SOCK_STREAM):
    with contextlib.closing(socket.socket(family, kind)) as line:
        line.settimeout(2)
        line.connect(address)
        line.send(b"?")
        return b"SECRET" in line.recv(100)


@attempt
def reach_a_server_on_loopback():
    return _asks(socket.AF_INET, ("127.0.0.1", FACTS["tcp"]))


@attempt
def reach_a_server_on_loopback_by_udp():
    return _asks(socket.AF_INET, ("127.0.0.1", FACTS["udp"]), socket.SOCK_DGRAM)


@attempt
def reach_an_abstract_socket():
    return _asks(socket.AF_UNIX, "\0" + FACTS["mark"])


@attempt
def reach_a_socket_with_a_path():
    return _asks(socket.AF_UNIX, FACTS["socket"])


@attempt
def reach_the_agent_of_ssh():
    return _asks(socket.AF_UNIX, os.environ["SSH_AUTH_SOCK"])


@attempt
def see_an_interface_of_the_network():
    with open("/proc/net/dev") as file:
        return any(":" in line and line.split(":")[0].strip() != "lo" for line in file)


@attempt
def talk_to_the_hypervisor():
    socket.socket(40, socket.SOCK_STREAM).close()  # AF_VSOCK, which no namespace confines
    return True


# --- namespaces, mounts, the kernel -----------------------------------------------------------------------------------


@attempt
def make_a_user_namespace():
    return LIBC.unshare(0x10000000) == 0


@attempt
def make_a_user_namespace_by_cloning():
    return shell("unshare --user --map-root-user true && echo ESCAPED")


@attempt
def mount_something():
    os.mkdir("mounted")
    done = LIBC.mount(b"none", b"mounted", b"tmpfs", 0, None) == 0
    if done:
        LIBC.umount2(b"mounted", 2)
    return done


@attempt
def uncover_a_mount():
    """Take away what lies over a directory; without a sandbox, a mount of one's own stands for it."""
    if FACTS["confined"]:
        return any(LIBC.umount2(path, 2) == 0 for path in (b"/tmp", b"/home/agent", b"/usr", b"/proc", b"/dev"))
    os.mkdir("covered")
    return LIBC.mount(b"none", b"covered", b"tmpfs", 0, None) == 0 and LIBC.umount2(b"covered", 2) == 0


@attempt
def make_a_mount_writable():
    path = FACTS["mount"].encode()
    return any(LIBC.mount(None, path, None, 32 | more, None) == 0 and os.access(path, os.W_OK) for more in (0, 4096))


@attempt
def change_the_root():
    return LIBC.chroot(b".") == 0


@attempt
def enter_the_namespaces_of_a_process_outside():
    fd = os.open(f"/proc/{FACTS['victim']}/ns/net", os.O_RDONLY)
    return LIBC.setns(fd, 0) == 0


@attempt
def open_a_file_by_its_handle():
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    number = ctypes.c_int()
    path = os.path.abspath(__file__).encode()
    if LIBC.name_to_handle_at(-100, path, handle, ctypes.byref(number), 0) != 0:
        return False
    fd = os.open(".", os.O_RDONLY)
    return LIBC.open_by_handle_at(fd, handle, os.O_RDONLY) >= 0


@attempt
def write_the_pattern_of_core_dumps():
    return opens("/proc/sys/kernel/core_pattern", os.O_WRONLY)


@attempt
def write_a_setting_of_the_kernel():
    return opens("/proc/sys/vm/drop_caches", os.O_WRONLY)


@attempt
def trigger_a_magic_key():
    return opens("/proc/sysrq-trigger", os.O_WRONLY)


@attempt
def make_a_control_group():
    for top in ("/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified"):
        with contextlib.suppress(OSError):
            os.mkdir(f"{top}/agentrewind-escape")
            os.rmdir(f"{top}/agentrewind-escape")
            return True
    return False


@attempt
def write_below_sys():
    return opens("/sys/kernel/mm/transparent_hugepage/enabled", os.O_WRONLY)


@attempt
def load_a_module():
    return syscall("init_module", b"", 0, b"") != 0 and ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS)


@attempt
def change_the_name_of_the_machine():
    name = FACTS["hostname"].encode()
    return LIBC.sethostname(name, len(name)) == 0


@attempt
def set_the_clock():
    time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME))
    return True


@attempt
def power_off():
    return LIBC.reboot(1) != 0 and ctypes.get_errno() == errno.EINVAL  # an impossible command: the right is asked first


# --- running them -----------------------------------------------------------------------------------------------------


def made(function):
    """The result of an attempt, which runs in a process of its own."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = function()
        except BaseException as error:  # noqa: BLE001
            said = f"{type(error).__name__}: {error}"
        os.write(writing, json.dumps(said).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        said = file.read()
    os.waitpid(pid, 0)
    return json.loads(said) if said else "died"


if __name__ == "__main__":
    with open(sys.argv[1]) as facts:
        FACTS.update(json.load(facts))
    print("RESULT " + json.dumps({name: made(function) for name, function in ATTEMPTS.items()}))
