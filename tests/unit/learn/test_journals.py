"""Runs of agents as training data: what was abandoned counts against what was kept, from the same files."""

import json
import re

import pytest

import agentrewind
from agentrewind.compose import forking
from agentrewind.compose.home import Home
from agentrewind.compose.runs import open_run
from agentrewind.core.errors import UsageError
from agentrewind.core.strategy import Stop
from agentrewind.learn.credit.named import CREDITS
from agentrewind.learn.credit.retrail import advancement
from agentrewind.learn.exporting import export
from agentrewind.learn.journals import recoveries_of, same_task, trial_of
from agentrewind.testing.scripted import ScriptedModel, call, say

NOTE = "Write right.txt instead."
CHECK = "test -e right.txt && echo 'progress: 2/2' && exit 0; test -e wrong.txt && echo 'progress: 1/2'; exit 1"
TOOL = {"type": "function", "function": {"name": "write", "parameters": {"type": "object", "properties": {}}}}


def script(request):
    """Writes the wrong file, is told, goes back, writes the right one."""
    if request.says(NOTE):
        return call("write", {"name": "right.txt"}) if not request.results else say("Done.")
    if not request.results:
        return call("write", {"name": "wrong.txt"})
    if not request.says("rejected"):
        return say("Done?")
    if len(request.results) == 1:
        return call("backtrack_candidates", {"reason": "wrong file"})
    first = re.search(r"rec_\d{6}", request.results[-1])[0]
    return call("backtrack_commit", {"record_uid": first, "memory_summary": NOTE})


def forward(request):
    """Writes the right file at once."""
    return call("write", {"name": "right.txt"}) if not request.results else say("Done.")


def play(work, model_script, *, check=CHECK, task="Write."):
    openai = pytest.importorskip("openai")
    with ScriptedModel(model_script) as model, agentrewind.session(work, task=task, check=check) as run:
        client = openai.OpenAI(base_url=model.base_url, api_key="k", max_retries=0)
        messages = [{"role": "user", "content": "Write."}]
        for _ in range(9):
            answer = client.chat.completions.create(model="m", messages=messages, tools=[TOOL]).choices[0].message
            messages.append(answer.model_dump(exclude_none=True))
            for item in answer.tool_calls or ():
                name = json.loads(item.function.arguments)["name"]
                run.tool("write", {"name": name}, lambda name=name: (work / name).write_text("x\n"))
                messages.append({"role": "tool", "tool_call_id": item.id, "content": "written"})
            if not answer.tool_calls:
                if check is None or isinstance(run.submit(), Stop):
                    break
                messages.append({"role": "user", "content": "The check rejected the work."})
    return open_run(run.id)


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTREWIND_HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run_is_a_trial_of_segments_and_recoveries(work):
    run = play(work, script)
    trial = trial_of(run)
    assert trial.solved
    assert [[call.did for call in segment.calls] for segment in trial.segments] == [
        ["acted", "acted", "went back"],
        ["acted", "acted"],
    ]
    assert [segment.endpoint for segment in trial.segments] == [0.5, 1.0]
    ((move, recovery),) = recoveries_of(run)
    assert (move.note, recovery.note) == (NOTE, NOTE)
    assert (recovery.abandoned, recovery.resumed, advancement(recovery)) == (0.5, 1.0, 0.5)
    assert recovery.reflection.kind == "reflection"
    assert recovery.trigger == "asked"
    first, again = trial.segments[0].calls[0], trial.segments[1].calls[0]
    assert (first.state, first.history) == (again.state, again.history), "made on the same files, after the same past"
    assert sum(call.reward for segment in trial.segments for call in segment.calls) == 1.5


def test_the_step_that_was_wrong_is_credited_against_the_one_that_replaced_it(work, tmp_path):
    run = play(work, script)
    done = export([run], tmp_path / "data.jsonl", "decisions")
    rows = lines(tmp_path / "data.jsonl")
    assert done["rows"] == len(rows) == 6
    by_uid = {row["uid"]: row for row in rows}
    trial = trial_of(run)
    wrong, right = (trial.segments[place].calls[0].uid for place in (0, 1))
    assert by_uid[wrong]["advantage"] == min(row["advantage"] for row in rows)
    assert by_uid[right]["advantage"] == max(row["advantage"] for row in rows)
    assert "wrong.txt" in json.dumps(by_uid[wrong]["completion"])
    assert by_uid[wrong]["messages"] == [{"role": "user", "content": "Write."}]
    assert sum(row["weight"] for row in rows if row["kind"] == "execution") == pytest.approx(1)
    assert all(row["folded"] == pytest.approx(row["advantage"] * row["weight"] * len(rows)) for row in rows)


@pytest.mark.parametrize("credit", CREDITS)
def test_every_credit_reads_the_same_runs(work, tmp_path, credit):
    run = play(work, script)
    assert export([run], tmp_path / "data.jsonl", "decisions", credit)["rows"] >= 5


def test_runs_of_one_task_are_compared(work, tmp_path):
    wrong_first = play(work, script)
    (work / "right.txt").unlink()
    straight = play(work, forward)
    assert same_task(wrong_first) == same_task(straight)
    done = export([wrong_first, straight], tmp_path / "data.jsonl", "decisions", "grpo")
    assert done["tasks"] == 1
    rows = lines(tmp_path / "data.jsonl")
    assert {row["run"] for row in rows} == {wrong_first.id, straight.id}
    (work / "right.txt").unlink()
    assert same_task(play(work, forward, task="Write it.")) != same_task(straight)


def test_imitation_takes_the_kept_path_and_preferences_take_both(work, tmp_path):
    run = play(work, script)
    export([run], tmp_path / "sft.jsonl", "sft")
    kept = lines(tmp_path / "sft.jsonl")
    assert len(kept) == 2
    assert "wrong.txt" not in json.dumps([row["completion"] for row in kept])
    assert NOTE in json.dumps(kept[0]["messages"])
    export([run], tmp_path / "pairs.jsonl", "preferences")
    (pair,) = lines(tmp_path / "pairs.jsonl")
    assert "right.txt" in json.dumps(pair["chosen"])
    assert "wrong.txt" in json.dumps(pair["rejected"])
    assert pair["gain"] == 0.5
    assert NOTE not in json.dumps(pair["prompt"])


def test_what_teaches_nothing_is_refused_and_writes_nothing(work, tmp_path):
    unchecked = play(work, forward, check=None)
    with pytest.raises(UsageError, match="Give the run a check"):
        export([unchecked], tmp_path / "data.jsonl", "decisions")
    (work / "right.txt").unlink()
    straight = play(work, forward)
    with pytest.raises(UsageError, match="no rewind among these runs"):
        export([straight], tmp_path / "data.jsonl", "preferences")
    assert not (tmp_path / "data.jsonl").exists()
    export([straight], tmp_path / "data.jsonl", "decisions")
    with pytest.raises(UsageError, match="there already"):
        export([straight], tmp_path / "data.jsonl", "decisions")


def test_what_a_fork_took_over_counts_in_its_run_only(work, tmp_path):
    run = play(work, script)
    target = next(node.uid for node in run.tree.path() if node.is_llm)
    fork = forking.fork(Home.of(), run, target, tmp_path / "forked")
    with pytest.raises(UsageError):
        trial_of(open_run(fork.run_id))
