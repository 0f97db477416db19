"""A run in one file: what goes out comes in, and what somebody else made of it is refused before it counts."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agentrewind.compose import bundles
from agentrewind.compose.bundles import _event_lines, export_bundle, import_bundle
from agentrewind.compose.collecting import remove_leftovers
from agentrewind.compose.home import Home
from agentrewind.compose.members import NotMembers, Writing, reading
from agentrewind.compose.pricing import Priced
from agentrewind.compose.recording import created, header
from agentrewind.compose.runs import Run, verify_snapshots
from agentrewind.compose.worlds import open_world
from agentrewind.core.effects import Effect
from agentrewind.core.errors import AgentRewindError, UsageError
from agentrewind.core.records import NodeBegan
from agentrewind.core.redact import Redactor
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.engine.session import Session
from agentrewind.journal.check import check
from agentrewind.journal.reader import read_run
from agentrewind.snapshots.portable import BundleRefused
from tests.trees import describe, differences
from tests.unit.engine.wire import Harness, Provider, answer

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
BIG = random.Random(1).randbytes(5 << 20)


@pytest.fixture
def made(tmp_path: Path) -> tuple[Home, Run]:
    return build(tmp_path, large=False)


@pytest.fixture
def large(tmp_path: Path) -> tuple[Home, Run]:
    return build(tmp_path, large=True)


def build(tmp_path: Path, *, large: bool) -> tuple[Home, Run]:
    """A run with a rewind over odd names, links, a sparse, a private and a secret file; perhaps a large one."""
    home, root = Home(tmp_path / "home").made(), tmp_path / "w"
    (root / "d" / "empty").mkdir(parents=True)
    (root / "a.txt").write_text("one")
    os.link(root / "a.txt", root / "z-hard")
    (root / "link").symlink_to("../elsewhere")
    (root / os.fsdecode(b"odd\xff\nname")).write_text("odd")
    if large:
        (root / "big.bin").write_bytes(BIG)
    with (root / "sparse").open("wb") as file:
        file.truncate(9 << 20)
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o4755)
    (root / ".env").write_text("TOKEN=private-value-123\n")
    (root / "conf.ini").write_text(f"token = {TOKEN}\n")
    os.setxattr(root / "a.txt", "user.note", b"kept")
    started = header(
        root, f"do it with {TOKEN}", redact=lambda value: value, agent="python", settings={"check": "evil"}
    )
    with open_world(home, root) as world, created(home, started, lambda value: value, "process") as log:
        session = Session(Priced(log), world, [OpenAIChat()])
        harness = Harness(session, _Files(root))
        call = lambda n: lambda _: answer(calls=[(f"c{n}", "shell", {"name": "a.txt", "text": str(n)})])  # noqa: E731
        commit = {"record_uid": "rec_000003", "memory_summary": "no good, do otherwise"}
        provider = Provider([call(1), call(2), lambda _: answer(calls=[("k", "backtrack_commit", commit)]), call(3)])
        for _ in range(3):
            harness.step(provider)
        (root / "run.sh").unlink()
        session.end("done", ok=True)
    return home, Run(home, started.run_id)


class _Files(dict):
    """What the harness of the unit tests calls a world: names to texts."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.files = self
        self._root = root

    def __setitem__(self, name: str, text: str) -> None:
        (self._root / name).write_text(text)


def bundle(made: tuple[Home, Run], to: Path, **options: bool):
    home, run = made
    return export_bundle(home, run._log, to, hide=Redactor(), **options)


def shape(root: Path, *without: str) -> dict:
    found = describe(root)
    kept = ("kind", "mode", "size", "sha256", "target", "mtime", "links", "xattrs")
    return {name: {k: v for k, v in item.items() if k in kept} for name, item in found.items() if name not in without}


def test_what_goes_out_comes_in_with_every_checkpoint(large, tmp_path: Path) -> None:
    run = large[1]
    done = bundle(large, tmp_path / "b", with_secrets=True)
    assert [(gap.path, gap.why) for gap in done.left_out] == [(".env", "private")]
    there = Home(tmp_path / "there")
    imported = import_bundle(there, tmp_path / "b", tmp_path / "w2")
    assert imported.run_id == run.id
    again = Run(there, imported.run_id)
    assert check(again.path) == []
    assert verify_snapshots(again, lambda *_: None) == (done.snapshots, [])
    assert [node.uid for node in again.records()] == [node.uid for node in run.records()]
    assert all(again.messages(node.uid) == run.messages(node.uid) for node in run.records() if node.is_llm)
    assert differences(shape(tmp_path / "w", ".env", "."), shape(tmp_path / "w2", ".")) == []
    for node in run.records():
        again.restore_files(node.uid)
        run.restore_files(node.uid)
        here, theirs = shape(tmp_path / "w", ".env", "."), shape(tmp_path / "w2", ".")
        if "run.sh" in here:
            assert (here["run.sh"]["mode"], theirs["run.sh"]["mode"]) == (0o4755, 0o755)
            here["run.sh"]["mode"] = 0o755
        assert differences(here, theirs) == []
    assert again.undo() is not None


def test_it_can_be_read_but_starts_nothing_here(made, tmp_path: Path) -> None:
    bundle(made, tmp_path / "b")
    there = Home(tmp_path / "there")
    again = Run(there, import_bundle(there, tmp_path / "b", tmp_path / "w2").run_id)
    assert (again.started.settings, again.resumable) == ({}, False)
    assert again.workspace == tmp_path / "w2"


def test_files_with_a_secret_stay_here_and_private_ones_always_do(made, tmp_path: Path) -> None:
    done = bundle(made, tmp_path / "b")
    assert {gap.path: gap.why for gap in done.left_out} == {
        ".env": "private",
        "conf.ini": "holds what looks like a secret",
    }
    import_bundle(Home(tmp_path / "there"), tmp_path / "b", tmp_path / "w2")
    assert not (tmp_path / "w2/conf.ini").exists()
    assert not (tmp_path / "w2/.env").exists()


def test_redacted_files_come_without_their_secrets_and_so_does_an_old_journal(made, tmp_path: Path) -> None:
    assert TOKEN in made[1].started.task
    bundle(made, tmp_path / "b", redact=True)
    there = Home(tmp_path / "there")
    again = Run(there, import_bundle(there, tmp_path / "b", tmp_path / "w2").run_id)
    assert (tmp_path / "w2/conf.ini").read_text() == "token = [redacted github-token]\n"
    assert again.started.task == "do it with [redacted github-token]"
    with reading(tmp_path / "b") as members:
        assert not any(TOKEN.encode() in member.read(1 << 30) for member in members)
    assert verify_snapshots(again, lambda *_: None)[1] == []


def test_nothing_is_overwritten(made, tmp_path: Path) -> None:
    to = tmp_path / "b"
    to.write_text("precious")
    with pytest.raises(UsageError, match="there already"):
        bundle(made, to)
    assert to.read_text() == "precious"
    bundle(made, to, force=True)
    there = Home(tmp_path / "there")
    import_bundle(there, to, tmp_path / "w2")
    with pytest.raises(UsageError, match="here already"):
        import_bundle(there, to, tmp_path / "w3")
    assert not (tmp_path / "w3").exists()
    with pytest.raises(UsageError, match="not an empty directory"):
        import_bundle(Home(tmp_path / "third"), to, tmp_path / "w2")
    assert (tmp_path / "w2/a.txt").exists()


# --- hostile bundles --------------------------------------------------------------------------------------------------

Forge = Callable[[list[tuple[str, bytes]]], list[tuple[str, bytes]]]


def rewritten(path: Path, to: Path, forge: Forge) -> Path:
    with reading(path) as found:
        members = [(member.name, member.read(1 << 30)) for member in found]
    with to.open("wb") as file:
        writing = Writing(file)
        for name, data in forge(members):
            writing.add(name, data)
        writing.close()
    return to


def in_snapshot(change: Callable[[dict], None], number: int = 0) -> Forge:
    def changed(data: bytes) -> bytes:
        described = json.loads(data)
        change(described)
        return json.dumps(described).encode()

    return replaced(f"snapshots/{number}.json", changed)


def step(path: str, told: dict | None) -> Forge:
    return in_snapshot(lambda described: described["step"].append([path, told]))


def replaced(wanted: str, new: Callable[[bytes], bytes]) -> Forge:
    return lambda members: [(name, new(data) if name == wanted else data) for name, data in members]


def _other_text(data: bytes) -> bytes:
    assert b"wrote a.txt" in data
    return data.replace(b"wrote a.txt", b"wrote b.txt")


def object_swapped(members):
    at = next(number for number, (name, _) in enumerate(members) if name.startswith("objects/"))
    return [(name, b"other bytes" if number == at else data) for number, (name, data) in enumerate(members)]


LINK = {"kind": "link", "mode": 0o777, "mtime_ns": 1, "target": "L3RtcA=="}
FILE = {"kind": "file", "mode": 0o644, "mtime_ns": 1, "size": 0, "content": hashlib.sha256().hexdigest()}
HOSTILE: dict[str, Forge] = {
    "a path that climbs": step("../outside", FILE),
    "an absolute path": step("/tmp/outside", FILE),
    "a path with dots in it": step("d/../../outside", FILE),
    "an empty name": step("d//x", FILE),
    "a zero byte": step("a\0b", FILE),
    "a file below a link": step("link/x", FILE),
    "a file below a file": step("a.txt/x", FILE),
    "a file below nothing": step("nowhere/x", FILE),
    "a device": step("dev", {"kind": "device", "mode": 0o644, "mtime_ns": 1}),
    "a root that is a link": step("", LINK),
    "a content that isn't there": step("x", {**FILE, "content": "0" * 64}),
    "a size that is a lie": step("x", {**FILE, "size": 1 << 62, "content": ["0" * 64]}),
    "a list of chunks of nothing": step("x", {**FILE, "size": 1 << 45, "content": [""] * 9}),
    "a path that is a number": in_snapshot(lambda described: described["step"].append([7, FILE])),
    "a step that is none": in_snapshot(lambda described: described["step"].append("x")),
    "what was never there is removed": step("never", None),
    "an attribute of the system": step("x", {**FILE, "xattrs": "EgAAAAEAAABzZWN1cml0eS5jYXBhYmlsaXR5MQ=="}),
    "an id that is a path": in_snapshot(lambda described: described.update(id="../../x")),
    "an id twice": lambda members: in_snapshot(
        lambda described: described.update(id=json.loads(dict(members)["snapshots/0.json"])["id"]), 1
    )(members),
    "a snapshot that the run doesn't name": in_snapshot(lambda described: described.update(id="ab" * 16)),
    "other bytes than the name says": object_swapped,
    "a member with another name": lambda members: [*members, ("../../etc/passwd", b"x")],
    "a second journal": lambda members: [*members, ("journal.jsonl", b"x")],
    "no header": lambda members: members[1:],
    "the run is a path": replaced("bundle.json", lambda data: json.dumps({**json.loads(data), "run": "../x"}).encode()),
    "a later format": replaced("bundle.json", lambda data: data.replace(b"bundle-1", b"bundle-9")),
    "a journal with a wrong checksum": replaced("journal.jsonl", _other_text),
    "contents with a wrong checksum": replaced("content.jsonl", _other_text),
    "a journal that is cut off": replaced("journal.jsonl", lambda data: data[:-9]),
    "a journal of nothing": replaced("journal.jsonl", lambda _: b""),
    "deep nesting": replaced("bundle.json", lambda _: b"[" * 100_000),
}


@pytest.fixture
def sound(made, tmp_path: Path) -> Path:
    bundle(made, tmp_path / "sound")
    return tmp_path / "sound"


def test_hostile_bundles_are_refused_and_nothing_of_them_is_kept(sound: Path, tmp_path: Path) -> None:
    outside = describe(tmp_path)
    for number, (what, forge) in enumerate(HOSTILE.items()):
        there = Home(tmp_path / f"there{number}")
        bad = rewritten(sound, tmp_path / "bad", forge)
        with pytest.raises(AgentRewindError) as refused:
            import_bundle(there, bad, tmp_path / "w2")
        assert isinstance(refused.value, BundleRefused), (what, refused.value)
        assert str(refused.value).startswith(f"{bad} is refused: "), what
        assert there.run_ids() == [], what
        assert list(there.runs.iterdir()) == [], what
        assert not list((there.root / "stores").iterdir()), what
        assert not (tmp_path / "w2").exists(), what
    left = {name for name in describe(tmp_path) if not name.startswith(("there", "bad"))}
    assert left == set(outside)


def test_the_forger_changes_nothing_by_itself(sound: Path, tmp_path: Path) -> None:
    again = rewritten(sound, tmp_path / "again", lambda members: members)
    assert import_bundle(Home(tmp_path / "there"), again, tmp_path / "w2").snapshots > 2


def test_a_cut_or_damaged_file_is_refused_wherever_it_is_hit(sound: Path, tmp_path: Path) -> None:
    data = sound.read_bytes()
    chance = random.Random(7)
    for number in range(12):
        bad = bytearray(data[: chance.randrange(len(data))] if number % 2 else data)
        if not number % 2:
            bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        (tmp_path / "bad").write_bytes(bad)
        with pytest.raises((BundleRefused, UsageError)):
            import_bundle(Home(tmp_path / "there"), tmp_path / "bad", tmp_path / "w2")
        assert not (tmp_path / "w2").exists()


def test_a_small_file_that_stands_for_a_large_one_is_refused_before_it_is_unpacked(sound: Path, tmp_path: Path) -> None:
    bomb = rewritten(sound, tmp_path / "bomb", lambda members: [*members[:1], ("content.jsonl", bytes(1 << 28))])
    assert bomb.stat().st_size < 1 << 20
    with pytest.raises(BundleRefused, match="--max-size"):
        import_bundle(Home(tmp_path / "there"), bomb, tmp_path / "w2", most_bytes=1 << 27)


def test_an_object_larger_than_any_content_is_not_read(sound: Path, tmp_path: Path) -> None:
    name = "objects/" + "0" * 64
    bad = rewritten(sound, tmp_path / "bad", lambda members: [*members[:3], (name, bytes((4 << 20) + 1))])
    with pytest.raises(BundleRefused, match="more than it can have"):
        import_bundle(Home(tmp_path / "there"), bad, tmp_path / "w2")


def test_what_is_no_bundle_says_so(tmp_path: Path) -> None:
    for content in (b"", b"hello", bytes(1000)):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(BundleRefused, match="no bundle"):
            import_bundle(Home(tmp_path / "there"), tmp_path / "x", tmp_path / "w2")


def test_members_after_the_end_are_refused(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as file:
        writing = Writing(file)
        writing.add("a", b"1")
        writing._packed.write(b'{"end": 1}\n{"name": "b", "size": 0}\n')
        writing.close()
    with pytest.raises(NotMembers, match="after its end"), reading(tmp_path / "x") as members:
        list(members)


class _Stop(BaseException): ...


def test_a_file_that_came_to_the_directory_meanwhile_stays_where_an_import_ends_early(sound: Path, tmp_path) -> None:
    elsewhere, at = Home(tmp_path / "other-home"), tmp_path / "here"
    at.mkdir()

    def stop(*_: object) -> None:
        (at / "mine").write_text("typed meanwhile")
        raise _Stop

    with pytest.raises(_Stop):
        import_bundle(elsewhere, sound, at, progress=stop)
    assert (at / "mine").read_text() == "typed meanwhile"
    assert list(elsewhere.runs.iterdir()) == []


def test_files_come_and_go_again_where_an_import_ends_last_and_those_of_others_stay(
    sound: Path, tmp_path, monkeypatch
) -> None:
    elsewhere, at = Home(tmp_path / "other-home"), tmp_path / "here"
    rename = os.rename

    def stop(old: Path, new: Path) -> None:
        if new.parent == elsewhere.runs:
            assert (at / "a.txt").exists()
            (at / "mine").write_text("typed meanwhile")
            raise _Stop
        rename(old, new)

    monkeypatch.setattr("agentrewind.compose.bundles.os.rename", stop)
    with pytest.raises(_Stop):
        import_bundle(elsewhere, sound, at)
    assert [path.name for path in at.iterdir()] == ["mine"]
    monkeypatch.undo()
    (at / "mine").unlink()
    assert import_bundle(elsewhere, sound, at).workspace == at


def test_a_second_import_to_one_directory_leaves_the_first_alone(sound: Path, tmp_path) -> None:
    elsewhere, at = Home(tmp_path / "other-home"), tmp_path / "here"
    refused: list[BaseException] = []

    def again(*_: object) -> None:
        if not refused:
            with pytest.raises(AgentRewindError) as second:
                import_bundle(elsewhere, sound, at)
            refused.append(second.value)

    done = import_bundle(elsewhere, sound, at, progress=again)
    assert refused
    count, problems = verify_snapshots(Run(elsewhere, done.run_id), lambda *_: None)
    assert count == done.snapshots
    assert problems == []
    assert (at / "a.txt").exists()


def test_a_command_that_a_bundle_brings_for_taking_an_effect_back_is_never_run(made, tmp_path: Path) -> None:
    home, run = made
    log, ran = read_run(home.run_dir(run.id)), tmp_path / "ran"
    effect = Effect("external", "a push", undo=f"touch {ran}")
    events = tuple(
        replace(event, effects=(effect,)) if isinstance(event, NodeBegan) and event.kind == "tool" else event
        for event in log.events
    )
    lines = b"".join(_event_lines(replace(log, events=events)))
    bundle(made, tmp_path / "sound")
    hostile = rewritten(tmp_path / "sound", tmp_path / "hostile", replaced("journal.jsonl", lambda _: lines))
    there = Home(tmp_path / "there")
    again = Run(there, import_bundle(there, hostile, tmp_path / "w2").run_id)
    assert "a push" in {effect.what for node in again.records() for effect in node.effects}
    again.rewind("rec_000001", "back to the beginning")
    assert not ran.exists()


# --- killed -----------------------------------------------------------------------------------------------------------


def killed_import(home: Home, file: Path, workspace: Path, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own, which dies before it does `at`."""
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(bundles._Import, at, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        try:
            import_bundle(home, file, workspace)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL


@pytest.mark.parametrize("at", ["_head", "_snapshots", "_restored", "_named"])
def test_after_a_killed_import_the_next_one_into_the_same_directory_begins_anew(
    made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    home, run = made
    bundle(made, tmp_path / "b", with_secrets=True)
    there, into = Home(tmp_path / "there"), tmp_path / "w2"
    killed_import(there, tmp_path / "b", into, at, monkeypatch)
    if at == "_named":  # what it wrote into the directory is not taken away by us
        with pytest.raises(UsageError, match="not an empty directory"):
            import_bundle(there, tmp_path / "b", into)
        shutil.rmtree(into)
    assert import_bundle(there, tmp_path / "b", into).run_id == run.id
    assert [path.name for path in there.runs.iterdir()] == [run.id]
    assert check(there.run_dir(run.id)) == []
    assert shape(into, ".env") == shape(home.root.parent / "w", ".env")


def test_a_store_that_somebody_used_after_the_killed_import_is_theirs(
    made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle(made, tmp_path / "b")
    there, into = Home(tmp_path / "there"), tmp_path / "w2"
    killed_import(there, tmp_path / "b", into, "_restored", monkeypatch)
    (into / "mine").write_text("precious")
    with open_world(there, into) as world:
        saved = world.snapshot("mine")
    (into / "mine").unlink()
    with pytest.raises(UsageError, match=r"snapshots of .* already"):
        import_bundle(there, tmp_path / "b", into)
    (part,), (note,) = there.runs.glob(".importing-*"), there.root.glob("stores/*/.importing")
    for path in (note, part):
        os.utime(path, (1, 1))
    remove_leftovers(there)
    assert not part.exists()
    with open_world(there, into) as world:
        world.restore(saved.id)
    assert (into / "mine").read_text() == "precious"


def test_an_import_that_goes_on_is_left_alone(made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle(made, tmp_path / "b")
    there, into = Home(tmp_path / "there"), tmp_path / "w2"

    def meanwhile(self: bundles._Import, last: object) -> None:
        with pytest.raises(UsageError, match="already"):
            import_bundle(there, tmp_path / "b", into)
        restored(self, last)

    restored = bundles._Import._restored
    monkeypatch.setattr(bundles._Import, "_restored", meanwhile)
    assert import_bundle(there, tmp_path / "b", into).workspace == into


def test_the_store_of_a_run_that_came_in_after_all_is_never_taken_for_one_that_was_left(
    made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made[1]
    bundle(made, tmp_path / "b")
    there, into = Home(tmp_path / "there"), tmp_path / "w2"
    killed_import(there, tmp_path / "b", into, "_snapshots", monkeypatch)
    shutil.rmtree(there.store_of(into))
    import_bundle(there, tmp_path / "b", into)
    shutil.rmtree(there.run_dir(run.id))
    for part in there.runs.glob(".importing-*"):
        os.utime(part, (1, 1))
    remove_leftovers(there)
    assert list(there.runs.iterdir()) == []
    with open_world(there, into, reading=True) as world:
        assert world.snapshots()


def test_what_is_old_and_left_is_removed_with_its_store(made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle(made, tmp_path / "b")
    there = Home(tmp_path / "there")
    killed_import(there, tmp_path / "b", tmp_path / "w2", "_restored", monkeypatch)
    remove_leftovers(there)
    (store,), (part,) = (there.root / "stores").iterdir(), there.runs.iterdir()
    for path in (store / ".importing", part):
        os.utime(path, (1, 1))
    remove_leftovers(there)
    assert not store.exists()
    assert not part.exists()
