"""What the page is given of a run: rows, steps in full, differences; and a run as one file."""

import base64
import hashlib
import json
import re

import pytest

import agentrewind
from agentrewind.compose.home import Home
from agentrewind.compose.runs import Run, open_run
from agentrewind.core.errors import RewindRefused, SnapshotNotFound, UnknownRecord, UsageError
from agentrewind.testing.scripted import ScriptedModel, call, say
from agentrewind.ui.acting import Acts
from agentrewind.ui.detail import LONGEST, diff_detail, state_detail, step_detail
from agentrewind.ui.overview import overview
from agentrewind.ui.standalone import export_html
from tests.long_runs import HOSTILE, long_run

NOTE = "Write right.txt instead."


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """A run of this process with one rewind, on real files."""
    openai = pytest.importorskip("openai")
    monkeypatch.setenv("AGENTREWIND_HOME", str(tmp_path / "home"))
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\n")
    with ScriptedModel(script) as model, agentrewind.session(work, task="Write.") as run:
        client = openai.OpenAI(base_url=model.base_url, api_key="k", max_retries=0)
        tool = {"type": "function", "function": {"name": "write", "parameters": {"type": "object", "properties": {}}}}
        messages = [{"role": "user", "content": "Write."}]
        for _ in range(9):
            answer = client.chat.completions.create(model="m", messages=messages, tools=[tool]).choices[0].message
            messages.append(answer.model_dump(exclude_none=True))
            if not answer.tool_calls:
                break
            for item in answer.tool_calls:
                name = json.loads(item.function.arguments)["name"]
                run.tool("write", {"name": name}, lambda name=name: (work / name).write_text(f"{name}\n"))
                messages.append({"role": "tool", "tool_call_id": item.id, "content": "written"})
    return open_run("last")


def script(request):
    if request.says(NOTE):
        return call("write", {"name": "right.txt"}) if not request.results else say("Done.")
    match len(request.results):
        case 0:
            return call("write", {"name": "wrong.txt"})
        case 1:
            return call("backtrack_candidates", {"reason": "wrong file"})
    first = re.search(r"rec_\d{6}", request.results[-1])[0]
    return call("backtrack_commit", {"record_uid": first, "memory_summary": NOTE})


def steps(run):
    return [row for row in overview(run)["rows"] if row["k"] == "step"]


def test_rows_say_what_was_done_and_what_was_left(recorded):
    found = overview(recorded)
    assert [(row["d"], row["k"]) for row in found["rows"]].count((1, "left")) == 1
    current = [row for row in steps(recorded) if row["d"] == 0]
    assert [row["files"] for row in current if row["changed"]] == [[["A", "right.txt"]]]
    assert all(row["checkpoint"] for row in steps(recorded))
    assert found["notes"][0]["text"] == NOTE
    assert found["state"] == "done"
    assert json.loads(json.dumps(found)) == found


def test_a_step_in_full_has_its_messages_its_calls_and_its_memory(recorded):
    last = [row for row in steps(recorded) if row["d"] == 0][-1]
    found = step_detail(recorded, last["uid"])
    node = found["nodes"][0]
    assert node["answer"]["text"] == "Done."
    assert [message["role"] for message in node["messages"]] == ["result"]
    assert node["known"] > 0
    assert len(step_detail(recorded, last["uid"], every=True)["nodes"][0]["messages"]) > len(node["messages"])
    assert [note["text"]["text"] for note in found["memory"]] == [NOTE]


def test_any_two_states_are_compared_also_across_branches(recorded):
    wrong, right = (
        next(row for row in steps(recorded) if [["A", name]] == row["files"]) for name in ("wrong.txt", "right.txt")
    )
    ends = [step_detail(recorded, row["uid"]) for row in (wrong, right)]
    found = diff_detail(recorded, ends[0]["after"], ends[1]["after"])
    assert {(file["status"], file["path"]) for file in found["files"]} == {("D", "wrong.txt"), ("A", "right.txt")}
    assert diff_detail(recorded, ends[1]["after"], "now")["total"] == 0
    assert state_detail(recorded, ends[0]["before"])["complete"]
    with pytest.raises(SnapshotNotFound):
        diff_detail(recorded, "0" * 32, "now")


def test_a_person_looks_first_then_rewinds_and_undoes(recorded, tmp_path):
    acts, home = Acts(Home(tmp_path / "home")), Home(tmp_path / "home")
    first = next(row["uid"] for row in steps(recorded) if row["d"] == 0)
    plan = acts.preview(recorded, first, keep_drift=True)
    assert {act["path"] for act in plan["acts"] if act["what"] == "remove"} == {"right.txt"}
    assert (tmp_path / "work" / "right.txt").exists(), "a preview touches nothing"
    with pytest.raises(UsageError, match="needs a note"):
        acts.rewind(recorded, first, "  ", keep_drift=True)
    with pytest.raises(UsageError, match="too long"):
        acts.rewind(recorded, first, "x" * 30_000, keep_drift=True)
    with pytest.raises(UnknownRecord):
        acts.rewind(recorded, "rec_999999", "note", keep_drift=True)
    assert acts.rewind(recorded, first, "Begin again.", keep_drift=True)["move"]["note"] == "Begin again."
    assert not (tmp_path / "work" / "right.txt").exists()
    again = Run(home, recorded.id)
    assert overview(again)["state"] == "rewound"
    acts.undo(again)
    assert (tmp_path / "work" / "right.txt").read_text() == "right.txt\n"
    made = acts.fork(Run(home, recorded.id), first, str(tmp_path / "second"))
    assert (tmp_path / "second" / "a.txt").read_text() == "one\n"
    assert made["run"] in home.run_ids()
    for ask in (acts.outcome, acts.withdraw):
        with pytest.raises(UsageError, match="no such request"):
            ask("nothing")
    with pytest.raises(UsageError, match="isn't running"):
        acts.pause(again)


def test_long_and_hostile_texts_are_cut_and_stay_texts(tmp_path):
    home = Home(tmp_path / "home")
    run = Run(home, long_run(home, tmp_path, steps=60, rewinds=5))
    found = overview(run)
    assert len(found["rows"]) == 60 + 5
    assert max(row["d"] for row in found["rows"]) >= 1
    texts = json.dumps(found)
    assert "window.hacked" in texts, "nothing is taken out; the page shows it as text"
    last = step_detail(run, steps(run)[-1]["uid"], every=True)
    assert all(len(message["text"]["text"]) <= LONGEST for message in last["nodes"][0]["messages"])


def test_one_file_holds_the_run_and_runs_nothing_but_the_page(recorded, tmp_path):
    to = tmp_path / "run.html"
    written = export_html(recorded, to)
    page = to.read_text()
    assert written.steps == len(steps(recorded))
    assert written.differences == 2
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "{{" not in page
    policy = re.search(r'http-equiv="content-security-policy" content="([^"]*)"', page)[1]
    for tag in ("style", 'script type="module"'):
        body = re.search(f"<{tag}>(.*?)</{tag.split()[0]}>", page, re.DOTALL)[1]
        assert base64.b64encode(hashlib.sha256(body.encode()).digest()).decode() in policy
    data = json.loads(re.search(r'id="run-data">(.*?)</script>', page, re.DOTALL)[1])
    assert data["overview"]["run"] == recorded.id
    assert set(data["steps"]) == {row["uid"] for row in steps(recorded)}
    with pytest.raises(UsageError, match="there already"):
        export_html(recorded, to)


def test_hostile_texts_end_no_script_in_the_file(tmp_path):
    home = Home(tmp_path / "home")
    run = Run(home, long_run(home, tmp_path / "gone", steps=20, rewinds=2))
    export_html(run, tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text()
    assert page.count("</script>") == 2
    assert HOSTILE[0] not in page


def test_a_run_that_refuses_says_so(recorded):
    abandoned = next(row["uid"] for row in steps(recorded) if row["d"] == 1)
    with pytest.raises((UsageError, RewindRefused)):
        Acts(recorded.home).preview(recorded, recorded.records()[1].uid, keep_drift=True)
    assert Acts(recorded.home).preview(recorded, abandoned, keep_drift=False)["alive"] is False
