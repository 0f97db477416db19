"""A journal from elsewhere: refused with file and offset, never with a traceback of ours or all memory gone."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import zlib

import pytest

from agentrewind.core.errors import JournalDamaged
from agentrewind.core.records import RunStarted
from agentrewind.journal import JournalWriter, read_run
from agentrewind.journal import format as fmt
from agentrewind.journal.check import check
from agentrewind.testing.journal import began, header, message


def sealed(body: bytes) -> bytes:
    return body[:-1] + b',"crc":"%08x"}\n' % zlib.crc32(body[:-1])


def event(number=1, tag="warned", **fields) -> bytes:
    return sealed(json.dumps({"n": number, "event": tag, **fields}).encode())


@pytest.fixture
def run_dir(tmp_path):
    with JournalWriter.create(tmp_path / "run", header()) as writer:
        writer.put(message(1))
    return tmp_path / "run"


LINES = {
    "no json": sealed(b"{nothing}"),
    "a list": sealed(b'["n",1]'),
    "not utf-8": sealed(b'{"n":1,"event":"warned","text":"\xff"}'),
    "utf-16": sealed('{"n":1}'.encode("utf-16")),
    "a key twice": sealed(b'{"n":1,"event":"warned","text":"a","text":"b"}'),
    "a key twice, deeper": sealed(b'{"n":1,"event":"run_started","settings":{"a":1,"a":2}}'),
    "nan": sealed(b'{"n":1,"event":"node_ended","uid":"rec_000001","latency_ms":NaN}'),
    "infinity": sealed(b'{"n":1,"event":"node_ended","uid":"rec_000001","latency_ms":1e999}'),
    "a number of many digits": sealed(b'{"n":1,"event":"warned","text":' + b"9" * 10_000 + b"}"),
    "deep": sealed(b'{"n":1,"event":"warned","text":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "rather deep": sealed(b'{"n":1,"event":"warned","text":' + b"[" * 300 + b"]" * 300 + b"}"),
    "deep objects": sealed(b'{"n":1,"event":"warned","text":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}"),
    "no number": sealed(b'{"event":"warned","text":"x"}'),
    "a boolean number": sealed(b'{"n":true,"event":"warned","text":"x"}'),
    "a number of text": event("1", text="x"),
    "another number": event(7, text="x"),
    "no event": sealed(b'{"n":1}'),
    "an unknown event": event(tag="exploded"),
    "an event of a list": event(tag=["warned"]),
    "a field missing": event(),
    "a field of another type": event(text=5),
    "a field of null": event(text=None),
    "a kind that is none": event(tag="rewound", branch="b1", source=None, target="r", live="s", why="because"),
    "a tuple of a number": event(tag="node_ended", uid="rec_000001", effects=3),
    "a record of text": event(tag="node_ended", uid="rec_000001", usage="much"),
    "a second header": event(tag="run_started", run_id="r", workspace="/", started_ns=1, version="0"),
    "a record that is none": event(tag="node_ended", uid="rec_000009"),
    "a content that is none": event(
        tag="node_began", uid="rec_000001", kind="tool", parent=None, branch="b0", thread="main", input_id="i",
        snapshot=None, started_ns=1, llm={"model": "m", "messages": {"added": [1]}},
    ),
    **{
        f"a content named {name!r}": event(
            tag="node_began", uid="rec_000001", kind="llm", parent=None, branch="b0", thread="main", input_id="i",
            snapshot=None, started_ns=1, llm={"model": "m", "messages": {"added": [name]}},
        )
        for name in (1, -1, 2**70, True, 0.0, None, "0", [0], "sha256:" + "0" * 64)
    },
    "an output that is none": event(tag="node_ended", uid="rec_000001", output=1),
    "contents that are no list": event(
        tag="node_began", uid="rec_000001", kind="llm", parent=None, branch="b0", thread="main", input_id="i",
        snapshot=None, started_ns=1, llm={"model": "m", "messages": {"added": 0}},
    ),
    "itself as its base": event(
        tag="node_began", uid="rec_000001", kind="llm", parent=None, branch="b0", thread="main", input_id="i",
        snapshot=None, started_ns=1, llm={"model": "m", "messages": {"base": "rec_000001"}},
    ),
    "an empty line": b"\n",
    "zeros": bytes(64) + b"\n",
    "no checksum": b'{"n":1,"event":"warned","text":"x"}\n',
    "a checksum in capitals": event(text="x").upper(),
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_a_line_that_is_wrong_in_any_way_names_file_and_offset(run_dir, name):
    path = run_dir / "journal.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + LINES[name])
    for act in (read_run, JournalWriter.open):
        with pytest.raises(JournalDamaged, match=f"journal.jsonl, byte {len(whole)}: "):
            act(run_dir)
    assert path.read_bytes() == whole + LINES[name]
    assert [problem.offset for problem in check(run_dir)][:1] == [len(whole)]


@pytest.mark.parametrize(
    "line",
    [
        sealed(b'{"n":0,"content":1}'),
        sealed(b'{"n":2,"content":1}'),
        sealed(b'{"n":01,"content":1}'),
        sealed(b'{"n":-1,"content":1}'),
        sealed(b'{"n":1.0,"content":1}'),
        sealed(b'{"n":"../../etc/passwd","content":1}'),
        sealed(b'{"n":' + b"1" * 10_000 + b',"content":1}'),
        sealed(b'{"content":1,"n":1}'),
        sealed(b'{"id":"sha256:' + b"0" * 64 + b'","content":1}'),
        b"\n",
        b"{}\n",
    ],
)
def test_a_content_line_of_another_frame_is_damage(run_dir, line):
    path = run_dir / "content.jsonl"
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(line)
    with pytest.raises(JournalDamaged, match=f"content.jsonl, byte {size}: "):
        read_run(run_dir)
    assert [problem.offset for problem in check(run_dir)] == [size]


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "nested"),
        (b'{"a":1,"a":2}', "twice"),
        (b'{"b":1,"a":2}', "canonical"),
        (b"1e999", "too large"),
        (b"nothing", "Expecting value"),
    ],
)
def test_a_content_that_lies_is_found_by_the_check_and_when_it_is_read(run_dir, data, what):
    content, (line, _) = fmt.content_id(data), fmt.encode_content(1, data)
    path = run_dir / "content.jsonl"
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(line)
    assert [(problem.offset, what in problem.what) for problem in check(run_dir)] == [(size, True)]
    if what != "canonical":
        with pytest.raises(JournalDamaged, match=r"content\.jsonl, byte"):
            read_run(run_dir).get(content)


def test_a_giant_line_is_refused_before_it_is_in_memory(run_dir):
    """A sparse line of 8 GB, read by a process that may have 1 GB."""
    begin = (run_dir / "journal.jsonl").stat().st_size
    for name in ("journal.jsonl", "content.jsonl"):
        with (run_dir / name).open("ab") as file:
            file.truncate(8 << 30)
    program = (
        "import sys, pathlib\n"
        "from agentrewind.journal.check import check\n"
        "from agentrewind.journal import read_run\n"
        "run = pathlib.Path(sys.argv[1])\n"
        "print([problem.offset for problem in check(run)])\n"
        "read_run(run)\n"
    )
    limit = 1 << 30
    done = subprocess.run(
        [sys.executable, "-c", program, run_dir],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"DamagedAt: {run_dir}/journal.jsonl, byte {begin}: a line is longer than" in done.stderr
    assert done.stdout.startswith(f"[{begin}, ")


def test_one_damaged_line_does_not_hide_the_next(run_dir):
    with JournalWriter.open(run_dir) as writer:
        for number in range(1, 5):
            writer.append(began(number, writer.put(message(number))))
    path = run_dir / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    offsets = [sum(map(len, lines[:index])) for index in range(len(lines))]
    lines[2] = lines[2].replace(b"main", b"MAIN")
    lines[4] = lines[4].replace(b"main", b"MAIN")
    path.write_bytes(b"".join(lines))
    found = {problem.offset: problem.what for problem in check(run_dir)}
    assert "checksum" in found[offsets[2]]
    assert "no record rec_000002" in found[offsets[3]]
    assert "checksum" in found[offsets[4]]
    assert all(str(problem).startswith("journal.jsonl, byte ") for problem in check(run_dir))


def test_deep_settings_that_are_allowed_come_back_under_a_deep_stack(tmp_path):
    deep = "x"
    for _ in range(fmt.MAX_DEPTH - 5):
        deep = [deep]
    JournalWriter.create(tmp_path / "run", RunStarted("r", "/w", 1, "0", settings={"deep": deep})).close()

    def down(levels):
        return read_run(tmp_path / "run") if levels == 0 else down(levels - 1)

    assert down(400).tree.started.settings == {"deep": deep}
