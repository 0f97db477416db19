"""What the proxy adds to a call: the same client, the same scripted server, directly and through the proxy in turn.

    python benchmarks/proxy_overhead.py [--calls 200] [--files 10 1000] [--history 20]

The workspace changes between calls (one file is written), as it does between the calls of an agent. Client, proxy and
server share this machine, but each is a process of its own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from agentrewind.testing.scripted import ScriptedModel, say

PROGRAM = str(Path(sys.executable).with_name("agentrewind"))
TOOL = {
    "type": "function",
    "function": {"name": "shell", "description": "Run a command.", "parameters": {"type": "object"}},
}
WARM_UP = 20


def serve(pipe) -> None:
    with ScriptedModel(lambda _: say("Done.")) as model:
        pipe.send(model.base_url)
        pipe.recv()


@contextmanager
def server() -> Iterator[str]:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,))
    process.start()
    yield ours.recv()
    ours.send(None)
    process.join()


@contextmanager
def proxy(base: Path, workspace: Path, upstream: str) -> Iterator[tuple[str, int]]:
    """Its base URL, and the id of its process."""
    environ = {**os.environ, "AGENTREWIND_HOME": str(base / "home")}
    command = [PROGRAM, "proxy", "--json", "--base-url", upstream, "--workspace", str(workspace)]
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as running:
        assert running.stdout
        yield json.loads(running.stdout.readline())["addresses"]["OPENAI_BASE_URL"], running.pid
        running.terminate()


def cpu(pid: int) -> float:
    """The seconds that a process has computed: what it takes whatever else the machine is doing."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def lay_out(workspace: Path, files: int) -> None:
    for number in range(files):
        path = workspace / f"dir{number // 50}" / f"file{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"file {number}\n" * 20)


def conversation(turns: int) -> list[dict]:
    messages: list[dict] = [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": "Work."}]
    for turn in range(turns):
        call = {
            "id": f"call_{turn}",
            "type": "function",
            "function": {"name": "shell", "arguments": '{"command": "ls"}'},
        }
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": f"result {turn}\n" * 40})
    return messages


def measure(files: int, calls: int, history: int, *, stream: bool) -> None:
    with tempfile.TemporaryDirectory() as scratch, server() as upstream:
        base = Path(scratch)
        workspace = base / "work"
        workspace.mkdir()
        lay_out(workspace, files)
        with proxy(base, workspace, upstream) as (front, pid), httpx.Client(timeout=30, trust_env=False) as client:
            worked = 0.0
            taken: dict[str, list[float]] = {upstream: [], front: []}
            messages = conversation(history)
            for number in range(calls + WARM_UP):
                worked = cpu(pid) if number == WARM_UP else worked
                (workspace / "changing.txt").write_text(f"{number}\n")
                messages += [{"role": "assistant", "content": "Done."}, {"role": "user", "content": f"more {number}"}]
                body = {"model": "any", "messages": messages, "tools": [TOOL], "stream": stream}
                for url in (upstream, front) if number % 2 else (front, upstream):
                    begun = time.perf_counter()
                    client.post(f"{url}/chat/completions", json=body).raise_for_status()
                    taken[url].append((time.perf_counter() - begun) * 1000)
                messages = messages[: 2 + 2 * history + 2 * (number + 1)]
            worked = (cpu(pid) - worked) * 1000 / calls
    direct, through = taken[upstream][WARM_UP:], taken[front][WARM_UP:]
    added = statistics.median(through) - statistics.median(direct)
    spread = statistics.quantiles([b - a for a, b in zip(direct, through, strict=True)], n=20)
    print(
        f"{files} files, {'streamed' if stream else 'plain'}, {calls} calls each, alternating: direct"
        f" {statistics.median(direct):.1f} ms, through the proxy {statistics.median(through):.1f} ms;"
        f" adds {added:.1f} ms at the median (a pair: 5 % {spread[0]:.1f}, 95 % {spread[-1]:.1f}); the proxy computes"
        f" {worked:.1f} ms a call"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--files", type=int, nargs="+", default=[10, 1000])
    parser.add_argument("--history", type=int, default=20)
    options = parser.parse_args()
    for files in options.files:
        for stream in (False, True):
            measure(files, options.calls, options.history, stream=stream)


if __name__ == "__main__":
    main()
