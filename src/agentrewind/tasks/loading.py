"""Reading tasks from their directories; nothing of them is run."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from agentrewind.core.errors import BadTask
from agentrewind.tasks.harbor import load_harbor
from agentrewind.tasks.task import SCHEMA, WORKDIR, Checklist, Criterion, Quote, Screens, Stage, Task, text_of

_ID = re.compile(r"[A-Za-z]\w*")


def load(path: Path, suite: str = "") -> Task:
    """The task in a directory. Nothing of it is run.

    A Harbor directory without a checklist of ours is loaded as a task of kind `harbor`.

    Raises:
        BadTask: it is none, or something in it is written wrongly: which file, and what.
    """
    path = Path(path).resolve()
    settings = _toml(path / "task.toml")
    if not (path / "tests/checklist.toml").exists():
        return load_harbor(path, settings, suite)
    return _Reader(path / "task.toml", settings).task(suite)


class _Reader:
    """Turns `task.toml` into a task, and says where it can't."""

    def __init__(self, file: Path, settings: dict[str, Any]) -> None:
        self._file = file
        self._all = settings

    def task(self, suite: str) -> Task:
        path = self._file.parent
        if self._all.get("schema_version") != SCHEMA:
            raise BadTask(f'{self._file}: schema_version must be "{SCHEMA}".')
        task, environment = self._table("task"), self._table("environment")
        mettle = self._table("metadata", "mettle")
        return Task(
            path=path,
            name=path.name,
            suite=suite,
            instruction=text_of(path / "instruction.md"),
            checklist=_checklist(path / "tests/checklist.toml"),
            title=self._text(task, "description"),
            family=self._text(mettle, "family"),
            trap=self._text(mettle, "trap"),
            workdir=self._text(environment, "workdir", WORKDIR),
            network=self._text(environment, "network_mode", "no-network") != "no-network",
            requires=self._words(mettle, "requires"),
            check_timeout_s=float(mettle.get("check_timeout_s", 60.0)),
            screens=self._screens(),
        )

    def _screens(self) -> Screens:
        table = self._table("metadata", "mettle", "screens")
        try:
            return Screens(
                stages=tuple(
                    Stage(item["makes"], tuple(item["steps"]), item["criterion"]) for item in table.get("stages", ())
                ),
                quotes=tuple(
                    Quote(item["in"], item["key"], item["of"], item.get("of_key", ""))
                    for item in table.get("quotes", ())
                ),
                defects=self._words(table, "defects"),
                symptom=self._text(table, "symptom"),
                log=self._text(table, "log"),
                entries=int(table.get("entries", 0)),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise BadTask(f"{self._file}: [metadata.mettle.screens] can't be read: {error!r}.") from error

    def _table(self, *names: str) -> dict[str, Any]:
        table: Any = self._all
        for name in names:
            table = table.get(name, {}) if isinstance(table, dict) else None
        if not isinstance(table, dict):
            raise BadTask(f"{self._file}: [{'.'.join(names)}] must be a table.")
        return table

    def _text(self, table: dict[str, Any], name: str, default: str = "") -> str:
        value = table.get(name, default)
        if not isinstance(value, str):
            raise BadTask(f"{self._file}: {name} must be a text, and is {value!r}.")
        return value

    def _words(self, table: dict[str, Any], name: str) -> tuple[str, ...]:
        value = table.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise BadTask(f"{self._file}: {name} must be a list of texts, and is {value!r}.")
        return tuple(value)


def _checklist(file: Path) -> Checklist:
    items = _toml(file).get("criterion")
    if not isinstance(items, list) or not items:
        raise BadTask(f"{file} has no [[criterion]].")
    criteria = tuple(_criterion(item, file) for item in items)
    ids = [item.id for item in criteria]
    if len(set(ids)) < len(ids):
        raise BadTask(f"{file}: two criteria have the same id.")
    return Checklist(criteria)


def _criterion(item: dict[str, Any], file: Path) -> Criterion:
    names = ("id", "category", "intent", "feedback")
    values = [item.get(name) for name in names]
    for name, value in zip(names, values, strict=True):
        if not isinstance(value, str) or not value.strip():
            raise BadTask(f"{file}: the criterion {item.get('id', '?')} has no {name}.")
    if not _ID.fullmatch(item["id"]):
        raise BadTask(f"{file}: {item['id']!r} can't be the id of a criterion: a letter, then letters and digits.")
    return Criterion(item["id"], item["category"], item["intent"], " ".join(item["feedback"].split()))


def _toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text_of(file))
    except tomllib.TOMLDecodeError as error:
        raise BadTask(f"{file} is no TOML: {error}.") from error
