import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai
import pytest

import agentrewind
from agentrewind.compose import declared, tools
from agentrewind.compose.asking import Outside, outside
from agentrewind.compose.declared import Undoing
from agentrewind.testing import scripted


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


def test_async_calls_at_the_same_time_leave_the_threads_of_the_loop_to_the_functions(place):
    """As many calls as the loop has threads, each of which needs one itself."""

    @agentrewind.tool
    async def read(number: int) -> int:
        return await asyncio.to_thread(lambda: number)

    async def main() -> list[int]:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        async with asyncio.timeout(30):
            return await asyncio.gather(*map(read, range(4)))

    with agentrewind.session(place) as live:
        assert asyncio.run(main()) == [0, 1, 2, 3]
    assert len(list(agentrewind.open_run(live.id).records())) == 4


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


# --- effects, and how they are taken back -----------------------------------------------------------------------------

ORDER = [{"type": "function", "function": {"name": "order", "parameters": {"type": "object", "properties": {}}}}]


def agent(base_url: str, order) -> None:
    """Asks the model until it has nothing more to order."""
    messages: list = [{"role": "user", "content": "Buy"}]
    with openai.OpenAI(base_url=base_url, api_key="k") as client:
        while True:
            answer = client.chat.completions.create(model="m", messages=messages, tools=ORDER).choices[0].message
            messages.append(answer.model_dump(exclude_none=True))
            for call in answer.tool_calls or ():
                said = order(json.loads(call.function.arguments)["item"])
                messages.append({"role": "tool", "tool_call_id": call.id, "content": str(said)})
            if not answer.tool_calls:
                return


def last_asked(run: agentrewind.Run) -> str:
    """What the model saw at its last call."""
    return str(run.messages(run.checkpoints()[-1].uid))


def backtrack(note: str):
    return scripted.call("backtrack_commit", {"record_uid": "rec_000001", "memory_summary": note})


def test_a_function_says_what_it_does_and_takes_it_back_by_its_result_when_the_run_goes_back(place):
    cancelled: list[agentrewind.Call] = []

    @agentrewind.tool(effect="external", undo=cancelled.append)
    def order(item: str, count: int = 1) -> dict:
        return {"number": len(item), "count": count}

    turns = [scripted.call("order", {"item": item}) for item in ("pen", "paper")]
    script = [*turns, backtrack("too dear"), scripted.say("ok")]
    with scripted.ScriptedModel(script) as model, agentrewind.session(place) as live:
        agent(model.base_url, order)
    assert [(dict(call.arguments), call.result, call.error) for call in cancelled] == [
        ({"item": "paper", "count": 1}, {"number": 5, "count": 1}, None),
        ({"item": "pen", "count": 1}, {"number": 3, "count": 1}, None),
    ]
    run = agentrewind.open_run(live.id)
    assert "still stand: none known." in last_asked(run)
    effects = [effect for node in run.records() if node.began.tool for effect in node.effects]
    assert {(effect.kind, effect.source, effect.by_program) for effect in effects} == {("external", "annotation", True)}
    assert [run.tree.compensated[key].outcome for key in run.tree.compensated] == ["done", "done"]


def test_a_call_that_raised_is_taken_back_with_its_error_and_a_failing_undo_is_told(place):
    seen = []

    def cancel(call: agentrewind.Call) -> None:
        seen.append(call)
        raise RuntimeError("the shop does not answer")

    @agentrewind.tool(effect="external", undo=cancel)
    def order(item: str) -> str:
        raise TimeoutError(f"no answer about {item}")

    def careful(item: str) -> str:
        try:
            return order(item)
        except TimeoutError as error:
            return str(error)

    script = [scripted.call("order", {"item": "pen"}), backtrack("hm"), scripted.say("ok")]
    with scripted.ScriptedModel(script) as model, agentrewind.session(place) as live:
        agent(model.base_url, careful)
    (call,) = seen
    assert (call.result, str(call.error)) == (None, "no answer about pen")
    run = agentrewind.open_run(live.id)
    assert "order pen (undoing it failed)" in last_asked(run)
    (ended,) = run.tree.compensated.values()
    assert ended.told == "RuntimeError: the shop does not answer"


def test_a_coroutine_takes_back_in_the_loop_of_the_call(place):
    loops = []

    @agentrewind.tool
    async def refund(item: str) -> str:
        return item

    async def cancel(call: agentrewind.Call) -> None:
        loops.append((await refund(call.result), asyncio.get_running_loop()))

    @agentrewind.tool(effect="external", undo=cancel)
    async def order(item: str) -> str:
        loops.append((None, asyncio.get_running_loop()))
        return item

    async def main(url: str) -> None:
        messages: list = [{"role": "user", "content": "Buy"}]
        async with openai.AsyncOpenAI(base_url=url, api_key="k") as client:
            while True:
                found = await client.chat.completions.create(model="m", messages=messages, tools=ORDER)
                answer = found.choices[0].message
                messages.append(answer.model_dump(exclude_none=True))
                for call in answer.tool_calls or ():
                    said = await order(json.loads(call.function.arguments)["item"])
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": said})
                if not answer.tool_calls:
                    return

    script = [scripted.call("order", {"item": "pen"}), backtrack("hm"), scripted.say("ok")]
    with scripted.ScriptedModel(script) as model, agentrewind.session(place) as live:
        asyncio.run(main(model.base_url))
    (_, begun), (result, ended) = loops
    assert result == "pen"
    assert ended is begun
    assert [name for name, _ in calls_of_tools(live.id)] == ["order"], "what takes back is no step of the agent"


def calls_of_tools(run_id: str) -> list[tuple[str, object]]:
    tools = (node.began.tool for node in agentrewind.open_run(run_id).records())
    return [(tool.name, tool.arguments) for tool in tools if tool]


def test_a_coroutine_that_takes_too_long_is_cancelled_and_one_whose_loop_is_busy_isnt_waited_for(monkeypatch):
    monkeypatch.setattr(declared, "UNDO_S", 0.2)
    seen = []

    async def hangs(_: agentrewind.Call) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def fails(_: agentrewind.Call) -> None:
        raise TimeoutError("its own")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(TimeoutError, match="cancelled after"):
            await asyncio.to_thread(Undoing(hangs, {}, loop))
        with pytest.raises(TimeoutError, match="its own"):
            await asyncio.to_thread(Undoing(fails, {}, loop))
        busy = asyncio.get_running_loop().run_in_executor(None, Undoing(hangs, {}, loop))
        time.sleep(1)  # noqa: ASYNC251 (this is what is tried)
        with pytest.raises(TimeoutError, match="was busy"):
            await busy
        await asyncio.sleep(0.1)

    asyncio.run(main())
    assert seen == ["cancelled"]


def test_a_coroutine_takes_back_where_no_loop_is_left(place):
    seen = []

    async def cancel(call: agentrewind.Call) -> None:
        await asyncio.sleep(0)
        seen.append(call.result)

    undoing = Undoing(cancel, {})
    assert undoing.of(lambda: 7)() == 7
    undoing()
    asyncio.run(asyncio.to_thread(undoing))

    async def within() -> None:
        undoing()

    asyncio.run(within())
    assert seen == [7, 7, 7]


def test_a_function_that_only_asks_is_external_and_leaves_nothing(place):
    @agentrewind.tool(effect="external", reads=True)
    def look_up(word: str) -> str:
        return word

    with agentrewind.session(place, effects="block") as live:
        assert look_up("x") == "x"
    (node,) = agentrewind.open_run(live.id).records()
    assert [(effect.kind, effect.reads, effect.survives) for effect in node.effects] == [("external", True, False)]


def test_a_function_that_says_external_is_not_run_where_that_is_blocked(place):
    @agentrewind.tool(name="mail", effect="external")
    def send(to: str) -> None:
        raise AssertionError

    with agentrewind.session(place, effects="block"), pytest.raises(agentrewind.NotRun, match="mail someone"):
        send("someone")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"effect": "remote"}, "effect must be one of read, workspace, outside, external, unknown"),
        ({"undo": print}, "say effect='external'"),
        ({"undo": print, "effect": "workspace"}, "a rewind leaves standing"),
        ({"undo": print, "effect": "external", "reads": True}, "a rewind leaves standing"),
        ({"reads": True}, "reads=True"),
    ],
)
def test_what_can_not_be_said_of_a_function_is_refused_when_it_is_declared(words, told):
    with pytest.raises(agentrewind.UsageError, match=told):
        agentrewind.tool(name="odd", **words)(lambda: None)


RULE = '[[effects.rule]]\ntool = "order"\nclass = "external"\nundo = "touch cancelled"\n'


@pytest.mark.parametrize("rule", ["", RULE], ids=["a function", "a command"])
def test_before_a_rewind_it_is_said_what_would_be_taken_back_and_by_what(place, rule):
    (place / "agentrewind.toml").write_text(rule)

    def cancel(call: agentrewind.Call) -> None:
        raise AssertionError

    @agentrewind.tool(effect="external", undo=None if rule else cancel)
    def order(item: str) -> str:
        return item

    turns = [scripted.call("order", {"item": "pen"}), scripted.say("ok")]
    with scripted.ScriptedModel(turns) as model, agentrewind.session(place) as live:
        agent(model.base_url, order)
        alive = outside(agentrewind.open_run(live.id), "rec_000001")
    ended = outside(agentrewind.open_run(live.id), "rec_000001")
    (undone,) = alive.undone
    assert undone.startswith("order pen, by `")
    assert undone.endswith("touch cancelled`" if rule else "cancel`")
    assert alive.survives == ()
    assert ended == (alive if rule else Outside(("order pen",), ()))
    assert not (place / "cancelled").exists()


def test_a_call_that_never_came_to_its_function_has_nothing_to_take_back(place):
    @agentrewind.tool(effect="external", undo=lambda _: pytest.fail("nothing was ordered"))
    def order(item: str) -> str:
        return item

    def careless(item: str) -> str:
        try:
            return order(item, "and", "more")
        except TypeError as error:
            return str(error)

    script = [scripted.call("order", {"item": "pen"}), backtrack("hm"), scripted.say("ok")]
    with scripted.ScriptedModel(script) as model, agentrewind.session(place) as live:
        agent(model.base_url, careless)
    run = agentrewind.open_run(live.id)
    assert [ended.outcome for ended in run.tree.compensated.values()] == ["done"]
    assert "still stand: none known." in last_asked(run)
