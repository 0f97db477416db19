"""Evaluations: the sums, the command, a model behind an endpoint."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from agentrewind.core.environment import ReplayDiverged
from agentrewind.core.errors import ProviderError, UsageError
from agentrewind.environments.draws import Draws
from agentrewind.learn.archives import Archives
from agentrewind.learn.contexts import View
from agentrewind.learn.evaluation import Plan, evaluate
from agentrewind.learn.methods import METHODS
from agentrewind.learn.plots import figures
from agentrewind.learn.scores import Cell, Score, across, base_of, by_length, difficulty_of, gain, summaries
from agentrewind.learn.solvers.minesweeper import Safest
from agentrewind.learn.trial import Trial
from agentrewind.learn.workers import processes
from agentrewind.learn.worlds import World


def scored(
    environment: str, protocol: str, seed: int, *solved: bool, lengths: tuple[int | None, ...] = ()
) -> list[Score]:
    known = lengths or (3,) * len(solved)
    return [
        Score(environment, "m", "p", protocol, seed, f"{environment}/{n}", won, 4, 3 + n, 4, 0, 1, known[n], "")
        for n, won in enumerate(solved)
    ]


def test_success_is_the_mean_over_seeds_and_its_deviation_that_of_a_sample() -> None:
    found = summaries([*scored("a", "P@1", 0, True, True), *scored("a", "P@1", 1, True, False)])
    assert [(item.success, item.seeds, item.trials) for item in found] == [(0.75, 2, 4)]
    assert found[0].deviation == pytest.approx(0.3535533906)
    assert found[0].to_success == 3
    assert summaries(scored("a", "P@1", 0, False))[0].to_success is None


def test_gains_are_paired_by_seed_and_missing_seeds_are_not_guessed() -> None:
    before = [*scored("a", "P@1", 0, False, False), *scored("a", "P@1", 1, True, False)]
    after = [*scored("a", "T@1", 0, True, False), *scored("a", "T@1", 1, True, True)]
    cell = Cell("a", "m", "p", "T@1")
    assert gain([*before, *after], cell, "P@1") == (0.5, 0.0)
    assert gain([*before[:2], *after], cell, "P@1") is None
    assert gain(after, cell, "P@1") is None


def test_environments_have_equal_weight_whatever_their_number_of_instances() -> None:
    mixed = [*scored("a", "P@1", 0, True), *scored("b", "P@1", 0, False, False, False, True)]
    assert across(mixed)[0].success == pytest.approx((1 + 0.25) / 2)


def test_sizes_of_one_environment_share_its_weight() -> None:
    sizes = [*scored("a:1", "P@1", 0, True), *scored("a:2", "P@1", 0, False), *scored("b", "P@1", 0, True)]
    assert across(sizes)[0].success == pytest.approx((0.5 + 1) / 2)
    assert [difficulty_of(name) for name in ("a", "a:6:3", "alfworld:train")] == [(), (6, 3), ()]


def test_the_gain_of_one_attempt_is_over_none_and_that_of_more_over_one() -> None:
    assert [base_of(name) for name in ("P@1", "T@1", "T@2", "T@4")] == [None, "P@1", "T@1", "T@1"]


def test_lengths_fall_into_thirds_and_unknown_ones_stand_apart() -> None:
    found = by_length(scored("a", "P@1", 0, *([True] * 7), lengths=(1, 2, 3, 4, 5, 6, None)))
    assert {name: len(group) for name, group in found.items()} == {
        "short (up to 2)": 2,
        "medium (to 4)": 2,
        "long (over 4)": 2,
        "no reference": 1,
    }


def test_the_same_scores_come_out_whatever_the_number_of_processes() -> None:
    plan = Plan(("minesweeper:5:4", "sokoban:6:2"), policies=("noisy:0.5",), seeds=(0, 1), instances=6, style="compact")
    assert evaluate(plan) == evaluate(plan, workers=processes(2))


def test_ways_back_help_on_sokoban_and_do_no_harm_on_minesweeper() -> None:
    plan = Plan(
        ("minesweeper:5:5", "sokoban:7:3"), policies=("noisy:0.7",), seeds=(0, 1, 2), instances=25, style="compact"
    )
    found = {
        (item.cell.environment, item.cell.protocol): item.success
        for item in summaries(evaluate(plan, workers=processes(2)))
    }
    for name in plan.environments:
        assert found[name, "T@3"] > found[name, "T@1"] >= found[name, "P@1"]
    assert found["sokoban:7:3", "T@1"] > found["sokoban:7:3", "P@1"]


def test_a_perfect_solver_solves_all_without_a_way_back() -> None:
    plan = Plan(("minesweeper:6:3", "sokoban:6:2"), policies=("perfect",), protocols=("P@1",), seeds=(0,), instances=60)
    assert [item.success for item in summaries(evaluate(plan))] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"environments": ("chess",)}, "names no environment"),
        ({"environments": ("sokoban:4:9",)}, "can't be"),
        ({"environments": ("sokoban:6:2:1",)}, "names no environment"),
        ({"methods": ("luck",)}, "is no method"),
        ({"policies": ("noisy:2",)}, "rate of errors"),
        ({"policies": ("gpt",)}, "--base-url"),
        ({"protocols": ("T@0",)}, "no protocol"),
        ({"seeds": ()}, "at least one"),
    ],
)
def test_a_plan_that_can_not_be_is_refused_in_one_sentence(change: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        evaluate(Plan(**({"environments": ("sokoban",)} | change)))


class _Model(BaseHTTPRequestHandler):
    """Answers like a model: it sees the messages alone."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.bodies.append(body)  # type: ignore[attr-defined]
        status, text = self.server.answer(body)  # type: ignore[attr-defined]
        payload = json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def model() -> Any:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    server.bodies, server.url = [], f"http://127.0.0.1:{server.server_port}/v1"  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def reads_the_board(body: Any) -> tuple[int, str]:
    shown = body["messages"][-1]["content"]
    board = "\n".join(line for line in shown.splitlines() if re.fullmatch(r"[?.*1-8 ]+", line))
    return 200, f"I think. <action>{Safest(3).best(View(board, 0, (), 0, 1, 0, 1), frozenset(), Draws('0'))}</action>"


def test_a_model_behind_an_endpoint_plays_and_sees_the_messages_alone(model: Any) -> None:
    model.answer = reads_the_board
    plan = Plan(
        ("minesweeper:5:3",), policies=("any-name",), protocols=("T@3",), seeds=(0,), instances=5, base_url=model.url
    )
    assert [item.success for item in summaries(evaluate(plan))] == [1.0]
    assert all(
        set(body) == {"model", "messages", "temperature", "top_p", "max_tokens", "seed"} for body in model.bodies
    )
    assert {body["model"] for body in model.bodies} == {"any-name"}
    assert "mines" not in json.dumps([body["messages"][1:] for body in model.bodies])


@pytest.mark.parametrize("method", list(METHODS))
def test_every_method_plays_over_an_endpoint_within_its_budget(model: Any, method: str) -> None:
    """The model reads the board, but its first move in every trial is one that it can't know to be safe."""

    def hasty(body: Any) -> tuple[int, str]:
        shown = body["messages"][-1]["content"]
        if "<remark>" in shown or "You watch another player" in shown:
            return 200, "<remark>look first</remark><target>C_0</target>"
        if "Answers used: 0 " not in shown:
            return reads_the_board(body)
        rows = [line.split() for line in shown.splitlines() if re.fullmatch(r"[?.*1-8 ]+", line)]
        closed = [(r, c) for r, row in enumerate(rows, 1) for c, cell in enumerate(row, 1) if cell == "?"]
        return 200, f"<action>({closed[-1][0]},{closed[-1][1]})</action>"

    model.answer = hasty
    plan = Plan(
        ("minesweeper:5:3",), methods=(method,), policies=("m",), protocols=("P@1", "T@3"), seeds=(0,), instances=4,
        base_url=model.url,
    )  # fmt: skip
    scores = evaluate(plan)
    assert all(item.calls <= 60 for item in scores)
    assert len(model.bodies) == sum(item.calls for item in scores)
    assert all(item.solved for item in scores if item.protocol == "T@3")
    assert all(item.rewinds == 0 and item.attempts == 1 for item in scores if item.protocol == "P@1")
    asked = {body["messages"][0]["content"] for body in model.bodies}
    assert any(METHODS[method].answer in text for text in asked)


def test_an_endpoint_that_refuses_is_an_error_that_names_it(model: Any) -> None:
    model.answer = lambda body: (401, "no")
    plan = Plan(("minesweeper:5:3",), policies=("x",), protocols=("P@1",), seeds=(0,), instances=1, base_url=model.url)
    with pytest.raises(ProviderError, match="HTTP 401"):
        evaluate(plan)


def agentrewind(*words: str, home: Any = None) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "AGENTREWIND_HOME": str(home)} if home else dict(os.environ)
    words = (sys.executable, "-m", "agentrewind", *words)
    return subprocess.run(words, capture_output=True, text=True, check=False, env=environ)


def test_archives_are_runs_in_a_home_of_their_own_and_each_was_played_again(tmp_path: Any) -> None:
    words = ("eval", "--env", "sokoban:6:2,minesweeper:5:4", "--policy", "noisy:0.7", "--protocol", "T@3")
    asked = (*words, "--instances", "4", "--seeds", "0", "--archives")
    refused = agentrewind(*asked)
    assert (refused.returncode, "--out" in refused.stderr) == (2, True)
    (tmp_path / "file").touch()
    refused = agentrewind(*asked, "--out", str(tmp_path / "file"))
    assert (refused.returncode, "is no directory" in refused.stderr) == (2, True)
    assert agentrewind(*asked, "--jobs", "2", "--out", str(tmp_path / "out")).returncode == 0
    listed = json.loads(agentrewind("runs", "--json", home=tmp_path / "out").stdout)
    assert len(listed) == 8
    for command in ("log", "candidates", "check", "cost"):
        assert agentrewind(command, listed[0]["run"], home=tmp_path / "out").returncode == 0


def test_an_archive_that_leads_elsewhere_is_found_out(tmp_path: Any) -> None:
    def spoiled(world: World, found: Trial, score: Score) -> None:
        Archives(tmp_path)(world, replace(found, final="another"), score)

    plan = Plan(("sokoban:6:2",), policies=("perfect",), protocols=("P@1",), seeds=(0,), instances=1)
    with pytest.raises(ReplayDiverged, match="another state"):
        evaluate(plan, keep=spoiled)


def test_what_can_be_drawn_of_an_evaluation_is_drawn() -> None:
    pytest.importorskip("matplotlib", reason="the extra `bench` isn't installed")
    plan = Plan(
        ("sokoban:6:1", "sokoban:6:2", "minesweeper:5:4"),
        policies=("noisy:0.6",), protocols=("P@1", "T@1", "T@2"), seeds=(0, 1), instances=6,
    )  # fmt: skip
    scores = evaluate(plan)
    assert set(figures(scores)) == {"success", "by_length", "by_difficulty", "by_attempts", "exploration"}
    for figure in figures(scores).values():
        assert all(axes.get_title() and axes.has_data() for axes in figure.axes)
    one = [item for item in scores if item.environment == "sokoban:6:1" and item.protocol == "P@1"]
    assert set(figures(one)) == {"success", "by_length", "exploration"}


def test_the_command_prints_a_table_keeps_every_trial_and_refuses_to_mix_two_evaluations(tmp_path: Any) -> None:
    words = [
        sys.executable,
        "-m",
        "agentrewind",
        "eval",
        "--env",
        "sokoban:6:2,minesweeper:5:4",
        "--policy",
        "noisy:0.5",
    ]
    words += ["--instances", "5", "--seeds", "0,1", "--out", str(tmp_path / "out")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "equal weight" in done.stdout
    assert "by reference length" in done.stdout
    trials = (tmp_path / "out" / "trials.jsonl").read_text().splitlines()
    assert len(trials) == 2 * 3 * 2 * 5
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert len(summary["cells"]) == 6
    assert "No plots" in done.stderr or {"success.png", "by_length.png", "by_attempts.png"} <= {
        item.name for item in (tmp_path / "out").iterdir()
    }
    again = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (again.returncode, again.stdout) == (2, "")
    assert "isn't empty" in again.stderr
