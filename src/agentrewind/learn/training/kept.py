"""The directory of a training run: its recipe, checkpoints of weights, optimiser and place, metrics, scores."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentrewind.core.codec import Json, from_plain, to_plain
from agentrewind.core.errors import UsageError
from agentrewind.journal.output import new_directory, new_file
from agentrewind.learn.scores import Score
from agentrewind.learn.training.policy import Engine
from agentrewind.learn.training.recipe import Recipe
from agentrewind.learn.training.rows import Row

PLACE, RECIPE, METRICS, STOPPED = "place.json", "recipe.json", "metrics.jsonl", "stopped.jsonl"
KEPT = 2
"""Checkpoints that stay, the newest ones; and those that were measured."""
_NAME = re.compile(r"clone-(\d{6})-update-(\d{6})")


@dataclass(frozen=True, order=True, slots=True)
class Place:
    """How far a training run is: steps of cloning, then updates."""

    cloned: int = 0
    updated: int = 0

    @property
    def name(self) -> str:
        return f"clone-{self.cloned:06}-update-{self.updated:06}"


class TrainingDirectory:
    """One process at a time. A checkpoint appears whole or not at all."""

    def __init__(self, directory: Path, recipe: Recipe) -> None:
        """Raises: UsageError: something else is there, or a run of another recipe; nothing was touched."""
        self.path = directory
        known = directory / RECIPE
        if known.is_file():
            if json.loads(known.read_text(encoding="utf-8")).get("identity") != recipe.identity:
                raise UsageError(
                    f"{directory} holds a training run of another recipe. Name a new directory; nothing was touched."
                )
            return
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise UsageError(f"{directory} is no training run, and isn't empty. Nothing was touched.")
        plain = {
            "identity": recipe.identity,
            "recipe": {**to_plain(recipe), "engine": str(recipe.engine or "embedded")},
        }
        with new_file(known) as file:
            file.write(_lines([plain], indent=1))

    def checkpoints(self) -> dict[Place, Path]:
        """Those that are there, oldest first."""
        found = {}
        for item in (self.path / "weights").glob("*"):
            match = _NAME.fullmatch(item.name)
            if match:
                found[Place(int(match[1]), int(match[2]))] = item
        return dict(sorted(found.items()))

    def weights(self, place: Place) -> Path:
        return self.path / "weights" / place.name

    def save(self, engine: Engine, place: Place) -> None:
        """Keep a checkpoint, and let go of those that aren't needed any more."""
        if self.weights(place).exists():
            return
        with new_directory(self.weights(place), _NAME) as directory:
            engine.backend.save(directory)
            engine.chat.tokenizer.save_pretrained(directory)
            (directory / PLACE).write_text(json.dumps(to_plain(place)), encoding="utf-8")
        for old, path in list(self.checkpoints().items())[:-KEPT]:
            if not self.scores_at(old).exists():
                shutil.rmtree(path)

    def resume(self, engine: Engine) -> Place:
        """Bring back the newest checkpoint; the place that it was kept at, the first one where there is none."""
        newest = max(self.checkpoints(), default=None)
        if newest is None:
            return Place()
        engine.backend.load(self.weights(newest))
        engine.backend.sync()
        return newest

    def keep_metrics(self, until: Place) -> None:
        """Take away the lines of steps after a place: they will be made again."""
        lines = self.metrics()
        kept = [line for line in lines if Place(line["cloned"], line["updated"]) <= until]
        if len(kept) < len(lines):
            with new_file(self.path / METRICS, force=True) as file:
                file.write(_lines(kept))

    def metrics(self) -> list[Json]:
        path = self.path / METRICS
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    def add_metrics(self, line: Json) -> None:
        with (self.path / METRICS).open("ab") as file:
            file.write(_lines([line]))

    def scores_at(self, place: Place) -> Path:
        return self.path / f"scores-{place.name}.jsonl"

    def keep_scores(self, place: Place, scores: Sequence[Score]) -> None:
        with new_file(self.scores_at(place)) as file:
            file.write(_lines([to_plain(score) for score in scores]))

    def scores(self, place: Place) -> list[Score] | None:
        """None where nothing was measured."""
        path = self.scores_at(place)
        if not path.exists():
            return None
        return [from_plain(Score, json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]

    def keep_batch(self, rows: Sequence[Row], facts: Json) -> Path:
        """The rows that a step could not be made of, and what was seen."""
        path = self.path / STOPPED
        with new_file(path, force=path.exists()) as file:
            file.write(_lines([facts, *map(to_plain, rows)]))
        return path


def _lines(items: Sequence[Json], indent: int | None = None) -> bytes:
    return "".join(json.dumps(item, ensure_ascii=False, indent=indent) + "\n" for item in items).encode()
