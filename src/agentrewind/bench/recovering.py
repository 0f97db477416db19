"""The paired recovery experiment: from one failed endpoint of `continue`, once with rewind and once without.

Both arms begin with copies of the same directory, put in the same place one after the other: the same conversation, the
same files, the same snapshots, the same paths.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentrewind.bench.one import Conditions, carried_on, run_one, slimmed
from agentrewind.bench.results import Result, Spec, write
from agentrewind.bench.statistics import bootstrap, exact_p, ranked
from agentrewind.core.codec import Json, from_plain, to_plain
from agentrewind.core.errors import UsageError

RECOVERY = "recovery.json"
ARMS = ("continue", "rewind")
FAILED = "times in a row at the same point"
"""What the reason of an endpoint says."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A failed endpoint, and what either arm made of it."""

    endpoint: Result
    forward: Result
    back: Result


def recover_one(spec: Spec, conditions: Conditions, directory: Path) -> Result:
    """Run `continue` to its end; where equal failures ended it, give it another chance twice. As `run_one`.

    The result of the endpoint is written last; `recovery.json` beside it holds the pair.
    """
    directory = directory.absolute()
    place, kept = directory / "run", directory / "endpoint"
    endpoint = run_one(replace(spec, arm=ARMS[0]), replace(conditions, keep_files=True), place)
    if endpoint.counts and not endpoint.success and FAILED in endpoint.ended:
        _copied(place, kept)
        results = []
        for arm in ARMS:
            shutil.rmtree(place)
            _copied(kept, place)
            results.append(carried_on(replace(spec, arm=arm), conditions, place, len(endpoint.submissions)))
        pair = Pair(endpoint, *results)
        (directory / RECOVERY).write_text(json.dumps(to_plain(pair), ensure_ascii=False) + "\n", "utf-8")
    shutil.rmtree(kept, ignore_errors=True)
    slimmed(place)
    write(replace(endpoint, spec=spec), directory)
    return replace(endpoint, spec=spec)


def _copied(source: Path, target: Path) -> None:
    """All of it: links, modes and times too."""
    subprocess.run(["cp", "-a", "--", source, target], check=True, capture_output=True)


def pairs_in(directory: Path) -> list[Pair]:
    """Raises: UsageError: one can't be read."""
    found: list[Pair] = []
    for path in sorted((directory / "runs").glob(f"*/*/*/*/*/{RECOVERY}")):
        try:
            given: Json = json.loads(path.read_text("utf-8"))
            found.append(from_plain(Pair, given))
        except (OSError, ValueError, TypeError, LookupError) as error:
            raise UsageError(f"{path} is not a pair of recoveries ({error}).") from None
    return [pair for pair in found if pair.forward.counts and pair.back.counts]


@dataclass(frozen=True, slots=True)
class Recovered:
    """What an arm made of the failed endpoints. `change` is the mean of the final progress, less the endpoint's."""

    arm: str
    pairs: int
    recovered: int
    change: float
    nodes: float
    """The mean number of nodes after the endpoint."""

    @property
    def rate(self) -> float:
        return self.recovered / self.pairs


def recovered(pairs: Sequence[Pair]) -> tuple[Recovered, Recovered]:
    """Without and with rewind. Raises: UsageError: there is no pair."""
    if not pairs:
        raise UsageError("There is no failed endpoint from which both arms went on.")
    return _arm(ARMS[0], [(pair.endpoint, pair.forward) for pair in pairs]), _arm(
        ARMS[1], [(pair.endpoint, pair.back) for pair in pairs]
    )


def _arm(name: str, runs: Sequence[tuple[Result, Result]]) -> Recovered:
    change = sum(final.progress - endpoint.progress for endpoint, final in runs) / len(runs)
    nodes = sum(final.nodes - endpoint.nodes for endpoint, final in runs) / len(runs)
    return Recovered(name, len(runs), sum(final.success for _, final in runs), change, nodes)


def paired_test(pairs: Sequence[Pair]) -> Json:
    """The paired difference of the two arms: of pairs that only one of them recovered, and of progress over tasks."""
    won = sum(pair.back.success and not pair.forward.success for pair in pairs)
    lost = sum(pair.forward.success and not pair.back.success for pair in pairs)
    tasks = _by_task(pairs)
    difference = bootstrap([[back - forward for forward, back in each] for each in tasks], _mean)
    signs = ranked([sum(pair.back.satisfied - pair.forward.satisfied for pair in each) for each in _tasks(pairs)])
    return {
        "won": won,
        "lost": lost,
        "progress_difference": to_plain(difference),
        "tasks_that_differ": signs.pairs,
        "r": signs.r,
        "p_exact": exact_p(signs),
    }


def _tasks(pairs: Iterable[Pair]) -> list[list[Pair]]:
    found: dict[str, list[Pair]] = {}
    for pair in pairs:
        found.setdefault(pair.endpoint.spec.task, []).append(pair)
    return list(found.values())


def _by_task(pairs: Iterable[Pair]) -> list[list[tuple[float, float]]]:
    return [[(pair.forward.progress, pair.back.progress) for pair in each] for each in _tasks(pairs)]


def _mean(groups: Sequence[Sequence[float]]) -> float:
    return sum(sum(group) / len(group) for group in groups) / len(groups)
