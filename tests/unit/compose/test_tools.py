import asyncio
import json
from pathlib import Path

import pytest

import agentrewind
from agentrewind.compose import tools


@pytest.fixture
def place(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("AGENTREWIND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def calls(run: agentrewind.Run) -> list[tuple[str, object]]:
    return [(node.began.tool.name, node.began.tool.arguments) for node in run.records()]


def test_outside_of_a_session_it_is_simply_the_function():
    @agentrewind.tool
    def double(number: int) -> int:
        """Twice."""
        return 2 * number

    @agentrewind.tool(name="later")
    async def later(number: int) -> int:
        return 2 * number

    assert double(4) == 8
    assert double.__doc__ == "Twice."
    assert asyncio.run(later(5)) == 10


def test_a_call_is_a_node_with_its_arguments_by_name(place):
    @agentrewind.tool
    def write(path: str, *words: str, mode: str = "w", **more: object) -> str:
        (place / path).write_text(" ".join(words))
        return path

    with agentrewind.session(place, task="Write") as live:
        assert write("a.txt", "x", "y", other=object) == "a.txt"
    run = agentrewind.open_run(live.id)
    ((name, arguments),) = calls(run)
    assert name == "write"
    assert arguments == {
        "path": "a.txt",
        "words": ["x", "y"],
        "mode": "w",
        "more": "{'other': <class 'object'>}",
    }
    (node,) = run.records()
    assert [change.path for change in node.after.changes.items if change.status == "A"] == ["a.txt"]
    assert run.output(node.uid) == "a.txt"


def test_an_async_function_runs_in_its_own_loop_and_is_a_node(place):
    @agentrewind.tool(name="fetch")
    async def slow(number: int) -> int:
        await asyncio.sleep(0.01)
        return id(asyncio.get_running_loop())

    async def main() -> bool:
        found = await asyncio.gather(slow(1), slow(2))
        return set(found) == {id(asyncio.get_running_loop())}

    with agentrewind.session(place) as live:
        assert asyncio.run(main())
    assert sorted(json.dumps(call) for call in calls(agentrewind.open_run(live.id))) == [
        '["fetch", {"number": 1}]',
        '["fetch", {"number": 2}]',
    ]


def test_an_async_call_that_is_cancelled_is_cancelled(place):
    ended = []

    async def main() -> None:
        begun = asyncio.Event()

        @agentrewind.tool
        async def hang() -> None:
            begun.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

        call = asyncio.create_task(hang())
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    with agentrewind.session(place) as live:
        asyncio.run(main())
    assert ended == ["cancelled"]
    (node,) = agentrewind.open_run(live.id).records()
    assert node.ended.error.type == "CancelledError"


def test_what_it_raises_passes_through_and_is_recorded(place):
    @agentrewind.tool
    def broken() -> None:
        raise ValueError("no")

    with agentrewind.session(place) as live, pytest.raises(ValueError, match="no"):
        broken()
    run = agentrewind.open_run(live.id)
    (node,) = run.records()
    assert (node.ended.error.type, node.ended.error.message) == ("ValueError", "no")
    assert run.state == "done"


def test_a_call_that_does_not_fit_fails_as_it_would_without_us(place):
    @agentrewind.tool
    def one(number: int) -> int:
        return number

    with agentrewind.session(place), pytest.raises(TypeError, match="positional"):
        one(1, 2)


def test_a_value_that_json_can_not_hold_is_recorded_by_its_representation():
    assert tools._said({1}) == "{1}"
    assert tools._said(float("nan")) == "nan"
    assert tools._said({"a": [1, None]}) == {"a": [1, None]}
    loop: list = []
    loop.append(loop)
    assert tools._said(loop) == "[[...]]"
