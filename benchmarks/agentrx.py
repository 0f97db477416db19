"""How often a rule without a model names the step that decided a failure: on failed runs that people annotated.

The runs are those of AgentRx (github.com/microsoft/AgentRx; MIT) that come with their logs: `tau_dataset_failed.json`,
runs of a shop's assistant, and `tau_ground_truth.json`, in which people name the step that each failed by; in
`shared/data/agentrx` beside the checkout. A log becomes a tree as a run of ours is one: a checkpoint for each answer of
the model, a tool node for each call, and another state of the world after each call that changes the shop's records.
On that tree the selectors and notices that ship with agentrewind choose, exactly as they would in a run.

A choice is a checkpoint: the point before a step. `hit` is the annotated step itself, `within k` at most k steps of
the model away; `early enough` is at or before it, which is what going back needs; `wasted` is how many right steps an
early enough choice throws away. Where the annotated step is the user's, who is simulated too, no choice of the agent
made it: the last step of the model before it stands for it, and the runs in which it was the agent's are counted apart.
Intervals are Wilson's, 95 %. What a random choice reaches is computed, not drawn.

    make agentrx
    python benchmarks/agentrx.py --json results.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agentrewind.bench.statistics import Interval, wilson
from agentrewind.core.codec import digest
from agentrewind.core.records import (
    FIRST_BRANCH,
    MAIN_THREAD,
    Event,
    NodeBegan,
    NodeEnded,
    RecordUid,
    Snapshotted,
    ToolInput,
    record_uid,
)
from agentrewind.core.tree import RunTree
from agentrewind.core.world import SnapshotId
from agentrewind.strategies.noticing import error, loop, stall
from agentrewind.strategies.selectors import selector_named

DATA = Path(__file__).parents[2] / "shared/data/agentrx"
WRITES = ("cancel_", "exchange_", "modify_", "return_", "transfer_")
"""How the names of the shop's tools begin that change its records, or hand the customer over."""
WITHIN = (0, 1, 3, 5)
STALL = 12
"""A run of the shop's has 20 to 60 messages: with the default of 40 nothing would ever stand still."""

Choice = Callable[[RunTree], int | None]
"""The number of a step of the model, from 0; None where the rule sees nothing."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A failed run: its journal, the steps of the model, and which of them decided it."""

    name: str
    events: tuple[Event, ...]
    steps: tuple[RecordUid, ...]
    decisive: int
    by_agent: bool


@dataclass(frozen=True, slots=True)
class Scored:
    """What a rule came to. Shares have intervals; `chose` is in how many runs it saw anything."""

    rule: str
    runs: int
    chose: int
    within: Mapping[int, Interval]
    early: Interval
    distance: float | None
    """The median number of steps between choice and annotation."""
    wasted: float | None
    """The mean number of right steps given up, over the choices that are early enough."""


# --- from a log to a tree ---------------------------------------------------------------------------------------------


def failed_runs(directory: Path) -> list[Failed]:
    """Those that come with their logs and an annotated step."""
    logs = json.loads((directory / "tau_dataset_failed.json").read_text("utf-8"))
    annotated = json.loads((directory / "tau_ground_truth.json").read_text("utf-8"))
    truth = {item["trajectory_id"]: item for item in annotated}
    return [_failed(log, truth[log["task_id"]]) for log in logs if log["task_id"] in truth]


def _failed(log: Mapping[str, Any], truth: Mapping[str, Any]) -> Failed:
    cause = next(item for item in truth["failures"] if item["failure_id"] == truth["root_cause"]["failure_id"])
    events, steps = events_of(log["traj"])
    before = [number for number, (_, place) in enumerate(steps) if place < int(cause["step_number"])]
    return Failed(
        str(log["task_id"]),
        tuple(events),
        tuple(uid for uid, _ in steps),
        before[-1],
        cause["failed_agent"] == "Assistant",
    )


def events_of(messages: Sequence[Mapping[str, Any]]) -> tuple[list[Event], list[tuple[RecordUid, int]]]:
    """The journal of the run with these messages; and each step of the model: its record, the place of its message."""
    states, nodes, steps = 0, 0, list[tuple[RecordUid, int]]()
    events: list[Event] = [Snapshotted(SnapshotId("s0"))]
    results = {item["tool_call_id"]: item["content"] or "" for item in messages if item["role"] == "tool"}

    def began(kind: Literal["llm", "tool"], tool: ToolInput | None = None) -> RecordUid:
        nonlocal nodes
        nodes += 1
        uid, before = record_uid(nodes), record_uid(nodes - 1) if nodes > 1 else None
        state = SnapshotId(f"s{states}") if kind == "llm" else None
        begun = NodeBegan(uid, kind, before, FIRST_BRANCH, MAIN_THREAD, "", state, nodes, tool=tool, raw_length=nodes)
        events.append(begun)
        return uid

    for place, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        calls = [(item["id"], item["function"]) for item in message.get("tool_calls") or []]
        asked = [(function["name"], function["arguments"]) for _, function in calls]
        uid = began("llm")
        steps.append((uid, place))
        said = tuple(f"{name}({arguments})" for name, arguments in asked)
        events.append(NodeEnded(uid, calls=said, action=digest(asked) if asked else ""))
        for call, function in calls:
            uid = began("tool", ToolInput(function["name"], function["arguments"], call))
            result = str(results.get(call, ""))
            events.append(NodeEnded(uid, digest=result.split("\n", 1)[0][:200]))
            if function["name"].startswith(WRITES) and not result.startswith("Error"):
                states += 1
                events.append(Snapshotted(SnapshotId(f"s{states}"), after=uid))
    return events, steps


# --- the rules --------------------------------------------------------------------------------------------------------


def rules(run: Failed) -> dict[str, Choice]:
    """By name; what a notice points at is the first call in which it shows."""
    place = {uid: number for number, uid in enumerate(run.steps)}

    def selector(name: str) -> Choice:
        def choose(tree: RunTree) -> int | None:
            nothing = RecordUid("")
            chosen = selector_named(name).choose(tree, nothing, MAIN_THREAD)
            return None if chosen == nothing else place[chosen]

        return choose

    found: dict[str, Choice] = {name: selector(name) for name in ("previous", "first-error", "last-change")}
    found |= {
        "first change": lambda tree: _first_change(tree, run.steps),
        "loop": lambda _: _earliest(run, lambda part: loop(part, MAIN_THREAD, 2)),
        f"standstill of {STALL}": lambda _: _earliest(run, lambda part: stall(part, STALL)),
        "the same error twice": lambda _: _earliest(run, lambda part: error(_results(part), 2)),
    }
    return found


def _first_change(tree: RunTree, steps: Sequence[RecordUid]) -> int | None:
    states = [tree.nodes[uid].began.snapshot for uid in steps]
    return next((number for number, state in enumerate(states[1:]) if state != states[number]), None)


def _results(tree: RunTree) -> Iterable[tuple[str, bool | None]]:
    return [(node.ended.digest, None) for node in tree.path()[::-1] if not node.is_llm and node.ended is not None]


def _earliest(run: Failed, look: Callable[[RunTree], Any]) -> int | None:
    """The step after which something is noticed for the first time, as the agent would be told in a run."""
    tree, number = RunTree(), -1
    for event in run.events:
        if isinstance(event, NodeBegan) and event.kind == "llm":
            if number >= 0 and look(tree) is not None:
                return number
            number += 1
        tree.apply(event)
    return None


# --- scores -----------------------------------------------------------------------------------------------------------


def scored(runs: Sequence[Failed]) -> list[Scored]:
    """Every rule over these runs, and a random choice."""
    names = list(rules(runs[0]))
    return [
        _random(runs),
        *(_scored(name, [(run, rules(run)[name](RunTree.fold(run.events))) for run in runs]) for name in names),
    ]


def _scored(rule: str, chosen: Sequence[tuple[Failed, int | None]]) -> Scored:
    away = [run.decisive - choice for run, choice in chosen if choice is not None]
    early = [each for each in away if each >= 0]
    return Scored(
        rule,
        len(chosen),
        len(away),
        {k: wilson(sum(abs(each) <= k for each in away), len(chosen)) for k in WITHIN},
        wilson(len(early), len(chosen)),
        statistics.median(map(abs, away)) if away else None,
        statistics.fmean(early) if early else None,
    )


def _random(runs: Sequence[Failed]) -> Scored:
    """A step drawn from all of a run's, each as likely: what it reaches on average."""

    def mean(of: Callable[[int], float]) -> float:
        return statistics.fmean(
            statistics.fmean(of(run.decisive - choice) for choice in range(len(run.steps))) for run in runs
        )

    def exact(value: float) -> Interval:
        return Interval(value, value, value)

    every = [abs(run.decisive - choice) for run in runs for choice in range(len(run.steps))]
    early = [run.decisive - choice for run in runs for choice in range(run.decisive + 1)]
    return Scored(
        "random",
        len(runs),
        len(runs),
        {k: exact(mean(lambda away, k=k: float(abs(away) <= k))) for k in WITHIN},
        exact(mean(lambda away: float(away >= 0))),
        statistics.median(every),
        statistics.fmean(early),
    )


def table(found: Sequence[Scored]) -> str:
    """Percentages with their intervals."""
    rows = [("rule", "chose", *(f"within {k}" if k else "hit" for k in WITHIN), "early enough", "distance", "wasted")]
    rows += [
        (
            item.rule,
            f"{item.chose} of {item.runs}",
            *(_percent(item.within[k]) for k in WITHIN),
            _percent(item.early),
            "" if item.distance is None else f"{item.distance:g}",
            "" if item.wasted is None else f"{item.wasted:.1f}",
        )
        for item in found
    ]
    wide = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(size) for cell, size in zip(row, wide, strict=True)).rstrip() for row in rows)


def _percent(found: Interval) -> str:
    value = f"{100 * found.value:.0f} %"
    return value if found.low == found.high else f"{value} ({100 * found.low:.0f}-{100 * found.high:.0f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--json", type=Path, help="write the figures there")
    chosen = parser.parse_args()
    runs = failed_runs(chosen.data)
    mine = [run for run in runs if run.by_agent]
    back = sorted(len(run.steps) - 1 - run.decisive for run in runs)
    print(f"{len(runs)} failed runs with logs and an annotated step, {sum(len(run.steps) for run in runs)} steps of the"
          f" model. The decisive one lies a median of {statistics.median(back):g} steps before the last.")  # fmt: skip
    print(f"\nAll {len(runs)}:\n{table(scored(runs))}")
    print(f"\nThe {len(mine)} in which it was the agent's own:\n{table(scored(mine))}")
    if chosen.json:
        facts = {name: [_facts(item) for item in scored(part)] for name, part in (("all", runs), ("agent", mine))}
        chosen.json.write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
    return 0


def _facts(item: Scored) -> dict[str, Any]:
    return {
        "rule": item.rule,
        "runs": item.runs,
        "chose": item.chose,
        **{f"within_{k}": item.within[k].value for k in WITHIN},
        "early_enough": item.early.value,
        "distance": item.distance,
        "wasted": item.wasted,
    }


if __name__ == "__main__":
    sys.exit(main())
