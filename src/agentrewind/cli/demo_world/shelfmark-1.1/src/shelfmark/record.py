"""Records as readers send them: lines of `key: value`, then a line `%%`. Nearly everything is forgiven, and named."""

import os
from dataclasses import dataclass

END = b"%%\n"


@dataclass(frozen=True)
class Record:
    """What a file says, and what is wrong with it."""

    mark: str
    title: str
    defects: tuple[str, ...]


def read(path: str) -> Record:
    """The record in the file `path`, which is not touched.

    Raises:
        ValueError: it has no call number.
    """
    with open(path, "rb") as file:
        data = file.read()
    lines = [line.rstrip("\r") for line in data.decode("utf-8", "replace").split("\n")]
    pairs = [(key, value.strip()) for key, colon, value in (line.partition(":") for line in lines) if colon]
    values = dict(reversed(pairs))
    if "mark" not in values:
        raise ValueError(f"{os.path.basename(path)} has no call number")
    return Record(values["mark"], values.get("title", ""), tuple(_defects(data, pairs)))


def _defects(data: bytes, pairs: list[tuple[str, str]]) -> list[str]:
    keys = [key for key, _ in pairs if key != "note"]
    found = {
        "not UTF-8": not _is_utf8(data.partition(END)[0]),
        "bytes after the end": bool(data.partition(END)[2]),
        "mixed line ends": b"\r\n" in data,
        "last line cut off": END not in data,
        "a key twice": len(keys) != len(set(keys)),
        "no date of receipt": "received" not in keys,
    }
    return [name for name, present in found.items() if present]


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
