"""The benchmark from the command line: made once, gone on with after a kill, the same however many at a time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentrewind.integrations.sandbox import probe
from agentrewind.testing.scripted import Request, ScriptedModel, Step, call, say
from tests.unit.bench.little import little_task

pytestmark = pytest.mark.timeout(900)
PROGRAM = str(Path(sys.executable).with_name("agentrewind"))
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def suite(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("suite")
    little_task(place, "first")
    little_task(place, "second")
    return place


def environ(place: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTREWIND", "OPENAI"))}
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(item for item in paths if item)
    return {**kept, "HOME": str(place), "AGENTREWIND_HOME": str(place / "home"), "PYTHONPATH": path}


def arguments(suite: Path, out: Path, *more: str) -> list[str]:
    common = ("--suite", str(suite), "--simulated", "--sandbox", "none", "--out", str(out))
    return [PROGRAM, "bench", "run", *common, *more]


def bench(suite: Path, out: Path, *more: str, code: int = 0) -> dict:
    done = subprocess.run(
        [*arguments(suite, out, *more), "--json"],
        env=environ(out.parent), capture_output=True, text=True, timeout=800, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if code == 0 else {"said": done.stderr}


def run_dirs(out: Path) -> list[Path]:
    return sorted(path.parent for path in out.glob("runs/*/*/*/*/*/result.json"))


def test_every_run_is_made_once_and_the_table_is_the_same_however_many_at_a_time(suite, tmp_path) -> None:
    arms = ("--strategies", "continue,rewind+selector=oracle", "--runs", "2", "--tasks", "first")
    one = bench(suite, tmp_path / "one", *arms, "--jobs", "1")
    two = bench(suite, tmp_path / "two", *arms, "--jobs", "2")
    assert one["tally"] == two["tally"]
    assert (one["tally"]["total"], one["tally"]["made"], one["tally"]["abnormal"]) == (4, 4, 0)
    assert one["cells"] == two["cells"]
    assert [cell["strategy"] for cell in one["cells"]] == ["continue", "rewind+selector=oracle"]
    assert all(cell["simulated"] for cell in one["cells"])
    again = bench(suite, tmp_path / "one", *arms)
    assert (again["tally"]["made"], again["tally"]["done_before"]) == (0, 4)
    assert again["cells"] == one["cells"]
    result = json.loads((run_dirs(tmp_path / "one")[0] / "result.json").read_text())
    assert result["submissions"][-1]["criteria"].keys() == {"P1", "P2", "P3"}
    assert not list((tmp_path / "one").glob("runs/*/*/*/*/*/workspace")), "only the journal is kept"
    assert list((tmp_path / "one").glob("runs/*/*/*/*/*/home/runs/*/journal.jsonl"))


def test_a_benchmark_that_was_killed_goes_on_to_the_same_table(suite, tmp_path) -> None:
    arms = ("--strategies", "continue,rewind", "--runs", "1", "--jobs", "2")
    out = tmp_path / "out"
    process = subprocess.Popen(
        arguments(suite, out, *arms), env=environ(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + 400
    while time.monotonic() < until and not run_dirs(out) and process.poll() is None:
        time.sleep(0.05)
    assert process.poll() is None, "it was still at work"
    process.kill()
    assert process.wait() == -signal.SIGKILL
    before = {path: (path / "result.json").read_bytes() for path in run_dirs(out)}
    after = bench(suite, out, *arms)
    assert len(before) <= after["tally"]["done_before"] < 4, "one may have come to its end as the kill came"
    assert all((path / "result.json").read_bytes() == content for path, content in before.items())
    assert after["cells"] == bench(suite, tmp_path / "whole", *arms)["cells"]


def test_a_limit_of_tokens_begins_no_more_runs(suite, tmp_path) -> None:
    out = bench(suite, tmp_path / "out", "--strategies", "continue", "--max-tokens", "1")
    assert out["tally"]["made"] == 1
    assert "limit of 1 tokens" in out["tally"]["stopped"]


def test_work_that_was_never_submitted_is_judged_as_it_lies_there(suite, tmp_path) -> None:
    more = ("--strategies", "continue", "--tasks", "first", "--max-steps", "2", "--simulated", "flawless")
    out = bench(suite, tmp_path / "out", *more)
    assert (out["cells"][0]["success"], out["cells"][0]["progress"]) == (0.0, pytest.approx(2 / 3))
    result = json.loads((run_dirs(tmp_path / "out")[0] / "result.json").read_text())
    assert "submissions" not in result
    assert "limit of 2 model calls" in result["ended"]


def test_an_endpoint_that_is_dead_makes_runs_abnormal_and_they_are_made_again(suite, tmp_path) -> None:
    dead = ("--models", "m", "--base-url", "http://127.0.0.1:9/v1", "--strategies", "continue", "--tasks", "first")
    command = [PROGRAM, "bench", "run", "--suite", str(suite), "--sandbox", "none", *dead, "--out", str(tmp_path / "o")]
    done = subprocess.run([*command, "--json"], env=environ(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["tally"]["made"], facts["tally"]["abnormal"], facts["cells"]) == (0, 1, [])
    (line,) = (tmp_path / "o" / "abnormal.jsonl").read_text().splitlines()
    assert "transport" in json.loads(line)["why"]
    again = subprocess.run([*command, "--json"], env=environ(tmp_path), capture_output=True, text=True, check=False)
    assert json.loads(again.stdout)["tally"]["abnormal"] == 1, "what doesn't count is made again"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--strategies", "retry"), "no strategy 'retry'"),
        (("--tasks", "third"), "no task third"),
        (("--models", "m"), "not both"),
    ],
)
def test_what_can_not_be_is_refused_in_one_sentence(suite, tmp_path, options, said) -> None:
    out = bench(suite, tmp_path / "out", *options, code=2)
    assert said in out["said"]
    assert len(out["said"].strip().splitlines()) <= 2
    assert not (tmp_path / "out" / "runs").exists()


def test_a_report_is_written_and_a_guard_measured_from_the_command_line(suite, tmp_path) -> None:
    bench(suite, tmp_path / "out", "--strategies", "continue", "--tasks", "first")

    def cli(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PROGRAM, *words], env=environ(tmp_path), cwd=tmp_path, capture_output=True, text=True, check=False
        )

    done = cli("bench", "report", "out")
    assert done.returncode == 0, done.stderr
    assert "Written: out/report.html" in done.stdout
    assert (tmp_path / "out" / "report.html").read_text().count("Simulated policy") == 1
    guard = cli("bench", "guard", "--json")
    facts = json.loads(guard.stdout)
    assert (facts["guard"], facts["failed"], facts["precision"] > 0.9, facts["recall"] > 0.7) == (
        "rules",
        0,
        True,
        True,
    )
    for words in (("report", "nothing"), ("compare", "a", "b", "--in", "out"), ("guard", "--guard", "x")):
        wrong = cli("bench", *words)
        assert (wrong.returncode, len(wrong.stderr.strip().splitlines())) == (2, 1)


def test_a_failed_endpoint_is_given_another_chance_with_and_without_rewind(suite, tmp_path) -> None:
    knobs = "plain:error_rate=1:attribution=1:memory_right=1:memory_wrong=0:rewind_inclination=1:premature=0"
    done = subprocess.run(
        [PROGRAM, "bench", "recover", "--suite", str(suite), "--tasks", "first", "--sandbox", "none", "--json",
         "--simulated", knobs, "--runs", "2", "--jobs", "2", "--out", str(tmp_path / "out")],
        env=environ(tmp_path), capture_output=True, text=True, timeout=800, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["tally"]["made"], facts["tally"]["abnormal"]) == (2, 0)
    forward, back = facts["arms"]
    assert forward["pairs"] == back["pairs"] >= 1
    assert (forward["recovered"], back["recovered"]) == (0, back["pairs"])
    found = json.loads(next((tmp_path / "out").glob("runs/*/*/*/*/*/recovery.json")).read_text())
    before = len(found["endpoint"]["submissions"])
    for arm in ("forward", "back"):
        assert found[arm]["submissions"][:before] == found["endpoint"]["submissions"], "both go on from the same"
    assert found["back"].get("moves")
    assert not found["forward"].get("moves")


FOREIGN = """\
from pathlib import Path


def test_the_greeting_is_there():
    assert Path("/app/greeting.txt").read_text() == "hello\\n"


def test_the_list_is_as_it_was():
    assert Path("/app/list.txt").read_text() == "a\\nb\\n"
"""


def foreign_task(root: Path, environment: str = "", dockerfile: str = "") -> None:
    """A directory as Harbor and Terminal-Bench 2 have them."""
    files = {
        "task.toml": f'version = "1.0"\n[metadata]\nauthor_name = "a"\ndifficulty = "easy"\ncategory = "files"\n'
        f"[verifier]\ntimeout_sec = 60.0\n[agent]\ntimeout_sec = 60.0\n[environment]\n{environment}",
        "instruction.md": "Write a greeting into /app/greeting.txt, and leave the list alone.\n",
        "environment/Dockerfile": dockerfile or "FROM ubuntu:24.04\nWORKDIR /app\nCOPY list.txt /app/\n",
        "environment/list.txt": "a\nb\n",
        "solution/solve.sh": "#!/bin/bash\necho hello > /app/greeting.txt\n",
        "tests/test.sh": "#!/bin/bash\npytest /tests/test_outputs.py && echo 1 > /logs/verifier/reward.txt\n",
        "tests/test_outputs.py": FOREIGN,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.skipif(not probe.bubblewrap().works, reason="its tests name /app, which is there in the sandbox only")
def test_tasks_of_other_benchmarks_run_where_their_environment_allows(tmp_path) -> None:
    foreign_task(tmp_path / "suite/greet", "allow_internet = false\n")
    foreign_task(tmp_path / "suite/imaged", 'docker_image = "someone/imaged:1"\n')
    foreign_task(tmp_path / "suite/built", dockerfile="FROM ubuntu:24.04\nWORKDIR /app\nRUN apt-get install -y jq\n")

    def script(request: Request) -> Step:
        rejected = sum("is not accepted yet" in said.text for said in request.said)
        commands = ["rm list.txt", "printf 'a\\nb\\n' > list.txt; cat ../app/list.txt; echo hello > /app/greeting.txt"]
        if rejected < len(commands) and request.turn % 2 == 0:
            return call("shell", {"command": commands[rejected]})
        return say("It is done.")

    with ScriptedModel(script) as model:
        done = subprocess.run(
            [PROGRAM, "bench", "run", "--suite", "suite", "--strategies", "continue", "--models", "m", "--base-url",
             model.base_url, "--out", "out", "--json"],
            env=environ(tmp_path), cwd=tmp_path, capture_output=True, text=True, timeout=800, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tally"] | {"tokens": 0} == {
        "total": 1, "made": 1, "done_before": 0, "abnormal": 0, "left": 0, "usd": 0, "tokens": 0, "stopped": "",
    }  # fmt: skip
    said = " ".join(done.stderr.split())
    assert "imaged is skipped: it needs the container image someone/imaged:1" in said
    assert "built is skipped: its Dockerfile does more than copying files (`RUN apt-get install -y jq`)" in said
    (path,) = run_dirs(tmp_path / "out")
    result = json.loads((path / "result.json").read_text())
    assert [item["satisfied"] for item in result["submissions"]] == [0, 2]
    assert result["success"]


def test_a_verdict_that_comes_late_is_about_an_earlier_submission_and_success_is_what_is_true(suite, tmp_path) -> None:
    arms = ("continue+validator=absent", "continue+validator=delayed:1", "continue+validator=noisy:1")
    more = ("--strategies", ",".join(arms), "--tasks", "first", "--simulated", "flawless", "--max-steps", "14")
    out = bench(suite, tmp_path / "out", *more)
    by = {cell["strategy"]: cell for cell in out["cells"]}
    assert {arm: by[arm]["success"] for arm in arms} == {arms[0]: 1.0, arms[1]: 1.0, arms[2]: 1.0}
    read = {path.parts[-4]: json.loads((path / "result.json").read_text()) for path in run_dirs(tmp_path / "out")}
    assert [item.get("told", "") for item in read[arms[1]]["submissions"]] == ["not judged yet", ""]
    assert all(item["satisfied"] == 3 for item in read[arms[2]]["submissions"]), "what is true"
    assert all(item["told"].startswith("P") for item in read[arms[2]]["submissions"]), "what is told"


def test_a_study_is_one_command_with_a_page_and_shares_its_runs(suite, tmp_path) -> None:
    def study(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PROGRAM, "bench", "study", *words], env=environ(tmp_path), cwd=tmp_path, capture_output=True, text=True,
            timeout=800, check=False,
        )  # fmt: skip

    common = ("--suite", str(suite), "--tasks", "first", "--simulated", "flawless", "--sandbox", "none", "--jobs", "2")
    one = study("effects", *common, "--out", "out", "--json")
    assert one.returncode == 0, one.stderr
    facts = json.loads(one.stdout)
    assert [arm["success"] for arm in facts["arms"]] == [1.0] * 6
    assert (tmp_path / facts["files"][0]).read_text().count("<svg") == 1
    two = study("cost", *common, "--out", "out")
    assert two.returncode == 0, two.stderr
    assert "Written: out/study-cost.html" in " ".join(two.stdout.split())
    assert "simulated" in two.stdout
    assert len(run_dirs(tmp_path / "out")) == 8, "continue and rewind were there"
    assert "validators" in study("--list").stdout
    for words, why in ((("nothing", *common), "no study"), (("attribution", "--models", "m"), "--simulated")):
        wrong = study(*words, "--out", "other")
        assert (wrong.returncode, len(wrong.stderr.strip().splitlines()) <= 2, why in wrong.stderr) == (2, True, True)
