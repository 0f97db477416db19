"""What of `/etc` is seen inside: what programs of all kinds look up, and nothing that holds a secret.

Each thing that is mounted costs a command time, and the more the more there are. So what is small is copied, once when
a run begins, into a directory that is mounted as a whole; what is large is mounted over it.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

COPIED = (
    "bash_completion", "ca-certificates", "ca-certificates.conf", "debian_version", "ld.so.cache", "ld.so.conf",
    "ld.so.conf.d", "locale.alias", "locale.conf", "localtime", "magic", "magic.mime", "mime.types", "os-release",
    "perl", "profile.d", "protocols", "python3", "python3.11", "redhat-release", "rpc", "services", "terminfo",
    "timezone", "xattr.conf",
)  # fmt: skip
MOUNTED = ("alternatives", "crypto-policies", "dictionaries-common", "fonts", "java", "pki", "ssl", "vulkan")
PRIVATE = ("ssl/private", "pki/tls/private")
"""Covered, as they lie in what is mounted."""

_LARGEST = 4 << 20
_DEEPEST = 4


def copy_configuration(to: Path) -> None:
    """Copy what is small, as far as everybody may read it, and leave out what can't be read."""
    for name in COPIED:
        _copy(f"/etc/{name}", to / name, _DEEPEST)


def _copy(source: str, to: Path, deep: int) -> None:
    with suppress(OSError):
        st = os.stat(source)
        if stat.S_ISDIR(st.st_mode) and deep and st.st_mode & stat.S_IROTH:
            to.mkdir(exist_ok=True)
            to.chmod(0o755)
            for name in os.listdir(source):
                _copy(f"{source}/{name}", to / name, deep - 1)
        elif stat.S_ISREG(st.st_mode) and st.st_size <= _LARGEST and st.st_mode & stat.S_IROTH:
            to.write_bytes(Path(source).read_bytes())
            to.chmod(0o644)
