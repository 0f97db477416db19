"""What a rewind ends of an agent program that runs beside us: the processes of its tools, never the program itself.

A process of the program and one of its tools look alike. What tells them apart is time (before its first answer the
program runs no tool) and who is waiting: a program that asks through `curl` has a young process that waits for the very
answer that the rewind brings, and in a pipeline, others that wait for that one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from agentrewind.core.records import RecordUid, ThreadId
from agentrewind.core.tree import RunTree
from agentrewind.engine.processes import Process, descendants, end_all, of_one_that_stays, ticks_now
from agentrewind.integrations.proxy.callers import Callers

Table = Mapping[int, Process]


class Leftovers:
    """Ends them: an `Ender`.

    Args:
        port: ours: a socket between it and the port of a caller belongs to the caller.
        tree: the run, for which conversations a rewind ends.
        below: the process whose descendants the program and its tools are; None where the program isn't below us: then
            it is looked for, and only what descends from it is ended.
    """

    def __init__(self, callers: Callers, port: int, tree: Callable[[], RunTree], below: int | None) -> None:
        self._callers, self._port, self._tree, self._below = callers, port, tree, below

    def __call__(self, started_since: int) -> tuple[list[Process], list[Process]]:
        since, begun = max(started_since, self._callers.first_answer or 0), ticks_now()
        return end_all(lambda: self._find(since, begun))

    def _find(self, since: int, begun: int) -> list[Process]:
        ports = self._waiting_ports()
        if self._below is not None:
            table = {process.pid: process for process in descendants(self._below)}
            clients = holders(self._port, ports, table.keys())
        else:
            clients = holders(self._port, ports, all_pids())
            table = {process.pid: process for client in clients for process in descendants(client)}
        spared = {pid for client in clients for pid in needed(client, table, since)}
        young = (item for item in table.values() if item.started >= since and item.pid not in spared)
        return [item for item in young if not (item.started >= begun and of_one_that_stays(item, table, since))]

    def _waiting_ports(self) -> set[int]:
        """The ports of the callers that stay: this call's, and those whose conversation isn't ended by the rewind."""
        tree = self._tree()
        target = tree.intent.target if tree.intent else None
        current = self._callers.current
        waiting = self._callers.waiting()
        return {item.port for item in waiting if item is current or _stays(tree, item.conversation, target)}


def _stays(tree: RunTree, conversation: ThreadId | None, target: RecordUid | None) -> bool:
    if conversation is None or target is None:
        return True
    first = next((uid for uid, node in tree.nodes.items() if node.began.thread == conversation), None)
    return first is None or first <= target


def needed(client: int, table: Table, since: int) -> set[int]:
    """The processes that an answer to `client` is for: it, those above it, and where it is young, those beside it.

    Beside it are all below its topmost young ancestor (a subshell that was made for this call), and the children of its
    parent that were started after it (the rest of a pipeline).
    """
    kept = {client}
    top = client
    while client in table and table[client].parent in table:
        client = table[client].parent
        kept.add(client)
        if table[client].started >= since:
            top = client
    if top not in table or table[top].started < since:
        return kept
    young = table[top]
    beside = [item.pid for item in table.values() if item.parent == young.parent and _age(item) >= _age(young)]
    return kept | _below(beside, table)


def _age(process: Process) -> tuple[int, int]:
    """Two of the same tick are told apart by their numbers, which count upwards."""
    return process.started, process.pid


def _below(roots: Iterable[int], table: Table) -> set[int]:
    found: set[int] = set()
    queue = list(roots)
    while queue:
        pid = queue.pop()
        found.add(pid)
        queue += [item.pid for item in table.values() if item.parent == pid and item.pid not in found]
    return found


# --- whose socket that is ---------------------------------------------------------------------------------------------


def holders(ours: int, ports: set[int], pids: Iterable[int]) -> list[int]:
    """The processes among `pids` that hold a connection from one of `ports` to our port; of several that hold the same
    one (it was inherited) the oldest.
    """
    wanted = {f"socket:[{inode}]": inode for inode in _inodes(ours, ports)}
    found: dict[str, int] = {}
    for pid in sorted(pids, reverse=True) if wanted else ():
        for name in _open_files(pid):
            if name in wanted:
                found[name] = pid
    return sorted(set(found.values()))


def _inodes(ours: int, ports: set[int]) -> set[str]:
    found = set()
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/net/{table}", encoding="ascii") as lines:
                rows = [line.split() for line in lines][1:]
        except OSError:
            continue
        found |= {row[9] for row in rows if _port(row[1]) in ports and _port(row[2]) == ours and row[9] != "0"}
    return found


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def _open_files(pid: int) -> list[str]:
    directory = f"/proc/{pid}/fd"
    found: list[str] = []
    with suppress(OSError):  # it has ended, or it isn't ours to look into
        for name in os.listdir(directory):
            with suppress(OSError):
                found.append(os.readlink(f"{directory}/{name}"))
    return found


def all_pids() -> list[int]:
    """Those of all processes but this one."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    except OSError:
        return []
