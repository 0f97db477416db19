"""Calls one of the two tools of a run from a shell. Stands on the standard library alone, since it is also the program
that a sandbox shows to the agent's commands.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import Any, TextIO

SOCKET = "tools"
"""The name of a run's socket."""
SOCKET_VARIABLE = "AGENTREWIND_TOOLS"
"""Where the socket of the run is."""
MOST = 1 << 20
"""Bytes of a question, and of an answer."""
ANSWER_S = 600.0
"""As long as a call of the model may take: the run is busy then."""
CANDIDATES, COMMIT = "backtrack_candidates", "backtrack_commit"
USAGE = (
    "usage: {program} candidates [REASON]\n"
    "       {program} commit RECORD_UID NOTE [REASON]   (NOTE `-`: read it from standard input)\n"
)


def ask(path: str, tool: str, arguments: dict[str, Any]) -> tuple[str, bool]:
    """What the run says to a call, and whether it did what was asked.

    Raises:
        OSError: nobody answers there. ValueError: what is answered is no answer.
    """
    question = json.dumps({"tool": tool, "arguments": arguments}).encode() + b"\n"
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            # Its path may be longer than the name of a socket can be. Without a time limit: with one, a socket at which
            # others wait already refuses at once.
            line.connect(f"/proc/self/fd/{directory}/{os.path.basename(path)}")
            line.settimeout(ANSWER_S)
            line.sendall(question)
            answer = _read(line)
    finally:
        os.close(directory)
    said = json.loads(answer)
    if not isinstance(said, dict) or not isinstance(said.get("text"), str):
        raise ValueError("the answer is not one of a run")  # noqa: TRY004 (of JSON, not of Python)
    return said["text"], said.get("ok") is True


def _read(line: socket.socket) -> bytes:
    data = bytearray()
    while not data.endswith(b"\n") and len(data) <= MOST:
        piece = line.recv(65536)
        if not piece:
            break
        data += piece
    return bytes(data)


def called(words: list[str], stdin: TextIO) -> tuple[str, dict[str, Any]] | None:
    """The tool and the arguments that the words of a command line name; None where they name none."""
    match words:
        case ["candidates", *reason]:
            return CANDIDATES, {"reason": " ".join(reason)}
        case ["commit", uid, note, *reason]:
            text = stdin.read(MOST) if note == "-" else note
            return COMMIT, {"record_uid": uid, "memory_summary": text, "reason": " ".join(reason)}
        case _:
            return None


def main(words: list[str], path: str, program: str) -> int:
    """The command; its exit code: 0 done, 1 it wasn't done, 2 bad use."""
    call = called(words, sys.stdin)
    if call is None:
        sys.stderr.write(USAGE.format(program=program))
        return 2
    try:
        text, ok = ask(path, *call)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{program}: The run can't be reached at {path}: {error}. Nothing was moved.\n")
        return 1
    sys.stdout.write(text + "\n")
    return 0 if ok else 1


def as_agentrewind(words: list[str]) -> int:
    """The command `agentrewind` as a sandbox has it: `agentrewind tool ...`. All else is said to the other program of
    that name in PATH, where there is one.
    """
    if words[:1] == ["tool"]:
        return main(words[1:], os.environ.get(SOCKET_VARIABLE, ""), "agentrewind tool")
    for directory in os.get_exec_path():
        path = os.path.join(directory, "agentrewind")
        if os.access(path, os.X_OK) and not os.path.samefile(path, __file__):
            os.execv(path, [path, *words])  # noqa: S606 (it is what was asked for)
    return main([], "", "agentrewind tool")


if __name__ == "__main__":
    sys.exit(as_agentrewind(sys.argv[1:]))
