"""A harness whose model calls tools in words of its own, and adapters of it with one fault each.

The processes of `agentrewind run` import this, for `test_harness_kit.py`.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from dataclasses import replace
from typing import ClassVar

import httpx

from agentrewind.core.tools import CANDIDATES, NAMES
from agentrewind.engine.signal import RewindSignal
from agentrewind.integrations.harnesses import sdk, shell


class InWords:
    """Its model writes `CALL {"name": …, "arguments": …}` on a line; the provider is told of no tools."""

    name = "in-words"
    preload: ClassVar[tuple[str, ...]] = ("httpx", "tests.conformance.broken_harnesses")
    seeds: ClassVar[bool] = True
    options: ClassVar[tuple[str, ...]] = ("stream", "asynchronous")

    def run(self, job):
        self.job, self.shell = job, shell.Shell(job)
        self.messages = [dict(message) for message in job.seed] or [{"role": "system", "content": "Work."}]
        with httpx.Client(timeout=30, trust_env=False) as self.client:
            return sdk.until_accepted(job, self.talk)

    def talk(self, text):
        if text is not None:
            self.messages.append({"role": "user", "content": text})
        while True:
            answer = self.ask()
            self.messages.append({"role": "assistant", "content": answer})
            calls = [json.loads(line[5:]) for line in answer.splitlines() if line.startswith("CALL ")]
            if not calls:
                return answer
            self.messages.append({"role": "user", "content": "\n".join(self.results(calls))})

    def ask(self):
        response = self.client.post(f"{self.job.base_url}/chat/completions", json=self.body())
        response.raise_for_status()
        return response.json()["choices"][0]["message"]["content"]

    def body(self):
        return {"model": self.job.model, "messages": self.messages}

    def results(self, calls):
        found = []
        try:
            for call in calls:
                found.append(self.result(call["name"], call["arguments"]))  # noqa: PERF401 (what was found must stay)
        except RewindSignal:
            found.append("Going back.")
        return found

    def result(self, name, arguments):
        return self.job.recorder.rewind_tool(name, arguments) if name in NAMES else self.command(arguments)

    def command(self, arguments):
        return self.shell.call(arguments)

    def past_the_recorder(self, command):
        words = ["sh", "-c", command]
        done = subprocess.run(words, cwd=self.job.workspace, capture_output=True, text=True, check=False)
        return f"{done.stdout}{done.stderr}[exit code {done.returncode}]"


class Unrecorded(InWords):
    def command(self, arguments):
        return self.past_the_recorder(arguments["command"])


class KeepsTheListToItself(InWords):
    def result(self, name, arguments):
        told = super().result(name, arguments)
        return "There are some." if name == CANDIDATES else told


class BringsFilesAlong(InWords):
    """Keeps the files that it has seen, and writes them again when they are gone."""

    def talk(self, text):
        self.kept = {}
        return super().talk(text)

    def ask(self):
        for path in self.job.workspace.rglob("*"):
            if path.is_file() and not path.is_symlink():
                self.kept.setdefault(path, path.read_bytes())
        answer = super().ask()
        for path, content in self.kept.items():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        return answer


class DropsNotes(InWords):
    """Knows one system message only."""

    def run(self, job):
        kept = (item for number, item in enumerate(job.seed) if number == 0 or item["role"] != "system")
        return super().run(replace(job, seed=tuple(kept)))


class GoesBackOnce(InWords):
    """Begins with the first conversation that it was given, each time."""

    first: ClassVar[tuple] = ()

    def run(self, job):
        type(self).first = self.first or job.seed
        return super().run(replace(job, seed=self.first))


class RunsTheRest(InWords):
    """Takes a rewind for an error of one call, and makes the others all the same."""

    def results(self, calls):
        found = super().results(calls)
        commands = [call["arguments"]["command"] for call in calls[len(found) :] if call["name"] not in NAMES]
        return found + [self.past_the_recorder(command) for command in commands]


class GoesOnAlone(InWords):
    """Cleans up by a command, whatever was raised."""

    def results(self, calls):
        found = super().results(calls)
        if found[-1] == "Going back.":
            self.past_the_recorder("echo cleaned >> ../side")
        return found


class RunsBeforeItAsks(InWords):
    def command(self, arguments):
        value = self.past_the_recorder(arguments["command"])
        return self.job.recorder.tool("shell", arguments, lambda: value)


class Restless(InWords):
    """Begins each of its processes but the first with something new, and can't be given a conversation."""

    seeds = False

    def run(self, job):
        if "start 1." not in job.task and "start" in job.task:
            job.recorder.tool("look", {"at": job.task}, lambda: "nothing")
        return super().run(job)


class EndsAtAFailure(InWords):
    def command(self, arguments):
        told = super().command(arguments)
        if "[exit code 0]" not in told:
            raise RuntimeError("a command failed")
        return told


class SaysThatItStreams(InWords):
    """Has the setting, and doesn't heed it."""


class LoopsInALoop(InWords):
    """Starts an event loop where there is one."""

    def ask(self):
        if not self.job.settings.get("asynchronous"):
            return super().ask()

        async def asked():
            asyncio.run(asyncio.sleep(0))

        return asyncio.run(asked())
