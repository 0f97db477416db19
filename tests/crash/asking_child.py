"""A process that makes a run of which a person asks for a rewind, and that is killed at a named crash point.

python asking_child.py DIR POINT [again]: prints `armed`, works in DIR/work, and dies of SIGKILL where it is told to.
`again` goes on with the run that is there, as a resume does, to its end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from agentrewind.core import crashpoints
from agentrewind.core.records import RecordUid
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.engine import offline
from agentrewind.engine.people import People
from agentrewind.engine.session import Session
from agentrewind.journal.requests import Requests, RewindRequest, new_id
from agentrewind.snapshots.attributed import Alone, Attributed
from tests.crash.rewinding_child import open_run, work
from tests.unit.engine.wire import PATH, SHELL, Provider, answer

TARGET = RecordUid("rec_000003")
NOTE = "a person's note"


def shell(number: int):
    return lambda _: answer(calls=[(f"c{number}", "shell", {"step": number})])


def main() -> None:
    base, point, again = Path(sys.argv[1]), sys.argv[2], len(sys.argv) > 3
    crashpoints.arm(point, lambda: os.kill(os.getpid(), signal.SIGKILL))
    print("armed", flush=True)
    log, world = open_run(base, new=not again)
    session = Session(log, Attributed(world, Alone("run crashing")), [OpenAIChat()])
    requests = Requests(base / "run")
    session.people = People(log, requests)
    messages: list[dict] = [{"role": "user", "content": "do it"}]
    if again:
        point_of, _ = offline.resume(log, world)
        session.resume_at(point_of)
        messages = list(point_of.seed) or messages
    provider = Provider([shell(5), lambda _: answer(text="done")] if again else [shell(1), shell(2), shell(3)])
    for number in range(4):
        if number == 3 and not again:
            requests.ask(RewindRequest(new_id(), TARGET, NOTE, 1))
            provider.turns = [shell(4), lambda _: answer(text="done")]
        if not step(base, session, messages, provider):
            break
    while not again and step(base, session, messages, provider):
        pass
    session.end("done", ok=True)
    world.close()
    log.close()


def step(base: Path, session: Session, messages: list[dict], provider: Provider) -> bool:
    reply = session.call(PATH, {"model": "m", "messages": list(messages), "tools": [SHELL]}, provider)
    message = json.loads(reply.body)["choices"][0]["message"]
    messages.append(message)
    for call in message.get("tool_calls") or ():
        number = json.loads(call["function"]["arguments"])["step"]
        text = session.tool("shell", {"step": number}, lambda n=number: work(base / "work", n), call_id=call["id"])
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
    return bool(message.get("tool_calls"))


if __name__ == "__main__":
    main()
