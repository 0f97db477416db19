"""Reading a task from its directory: what it says, and which file is wrong where one is."""

from __future__ import annotations

import pytest

from agentrewind.core.errors import BadTask, UsageError
from agentrewind.tasks.loading import load
from agentrewind.tasks.shipped import find, suite, suites
from tests.unit.tasks.good import built, changed, copied, good, outcomes, verdicts


def test_a_task_says_what_its_directory_says():
    task = good()
    assert (task.name, task.workdir, task.network, task.kind) == ("template", "/app", False, "agentrewind")
    assert [criterion.id for criterion in task.checklist] == ["P1", "P2", "P3", "P4", "P5", "P6"]
    assert task.checklist.index("P3") == 2
    assert [step.name for step in task.steps][:3] == ["survey", "head", "returns"]
    assert "\n# step" not in "".join(step.script for step in task.steps)
    assert task.fails_at.id == "P3"
    assert task.screens.defects == ("head", "returns")
    assert task.skipped == ""


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("task.toml", 'schema_version = "1.4"', 'schema_version = "9"', "schema_version"),
        ("task.toml", "[metadata.mettle]\n", "[metadata.mettle\n", "no TOML"),
        ("task.toml", "requires = []", "requires = [3]", "requires must be a list of texts"),
        ("task.toml", 'makes = "BASELINE.json", ', "", "screens.*makes"),
        ("tests/checklist.toml", 'id = "P2"', 'id = "P1"', "same id"),
        ("tests/checklist.toml", 'id = "P2"', 'id = "2 b"', "can't be the id"),
        ("tests/checklist.toml", 'id = "P2"', "", "has no id"),
        ("solution/violate.sh", "# fails at: P3", "# fails at: P9", "P9, which is no criterion"),
        ("solution/violate.sh", "# fails at: P3", "", "names the criterion"),
        ("solution/solve.sh", "# step returns", "# step head", "two of the same name"),
        ("solution/solve.sh", "# step survey", "echo early\n# step survey", "echo early"),
    ],
)
def test_a_task_that_is_written_wrongly_is_refused_by_the_name_of_the_file(file, old, new, said, tmp_path):
    task = copied(tmp_path / "task")
    changed(task / file, old, new)
    with pytest.raises(BadTask, match=f"(?s){file}.*{said}"):
        _ = load(task).steps, load(task).fails_at


@pytest.mark.parametrize("file", ["task.toml", "instruction.md", "solution/solve.sh", "solution/violate.sh"])
def test_a_task_that_lacks_a_file_is_refused(file, tmp_path):
    task = copied(tmp_path / "task")
    (task / file).unlink()
    with pytest.raises(BadTask, match="there is no"):
        _ = load(task).steps, load(task).fails_at


def test_a_task_is_found_by_its_directory_and_nothing_else_is_taken_for_one(tmp_path):
    assert find(str(copied(tmp_path / "mine"))).name == "mine"
    for ref in ("", "no-such", "../template", str(tmp_path / "no")):
        with pytest.raises(BadTask):
            find(ref)
    assert "core" in suites()
    with pytest.raises(UsageError, match=r"no suite 'other'; there are: core, .*all"):
        suite("other")


def test_the_suite_of_all_has_the_tasks_of_every_suite_in_their_order():
    assert suite("all") == tuple(task for name in suites() for task in suite(name))
    assert suite("all")[: len(suite("core"))] == suite("core")


RUNS = "FROM ubuntu:24.04\nRUN apt-get update\n"
COPIES = "# As shipped\nFROM ubuntu:24.04\nWORKDIR /app\nENV A=1\nCOPY start.txt ./\nCOPY data /app/data\n"


def harbor(path, tests: str, environment: str = "", dockerfile: str = RUNS) -> None:
    for name in ("tests", "environment"):
        (path / name).mkdir(parents=True)
    (path / "task.toml").write_text(f'version = "1.0"\n[metadata]\ncategory = "security"\n[environment]\n{environment}')
    (path / "instruction.md").write_text("Do it.")
    (path / "tests/test.sh").write_text("#!/bin/bash\nuvx pytest /tests/test_outputs.py\n")
    (path / "tests/test_outputs.py").write_text(tests)
    (path / "environment/Dockerfile").write_text(dockerfile)


def test_a_harbor_directory_is_a_task_whose_criteria_are_its_tests(tmp_path):
    harbor(
        tmp_path / "foreign",
        'def test_file_exists():\n    """The file is there."""\n\n'
        "class TestMore:\n    def test_it_runs(self): ...\n\ndef helper(): ...\n",
        'allow_internet = false\ndocker_image = "example/foreign:1"\n',
    )
    task = load(tmp_path / "foreign")
    assert (task.kind, task.instruction, task.family, task.network) == ("harbor", "Do it.", "security", False)
    assert {item.id: item.feedback for item in task.checklist} == {
        "test_outputs.py::TestMore::test_it_runs": "A test of the task doesn't pass yet: TestMore::test it runs.",
        "test_outputs.py::test_file_exists": "The file is there.",
    }
    assert not task.checklist.ordered
    assert "example/foreign:1" in task.skipped


def test_a_harbor_directory_without_python_tests_has_one_criterion(tmp_path):
    harbor(tmp_path / "foreign", "")
    assert [item.id for item in load(tmp_path / "foreign").checklist] == ["test.sh"]
    assert "RUN apt-get update" in load(tmp_path / "foreign").skipped


def test_a_directory_that_is_no_task_of_anybody_is_refused(tmp_path):
    (tmp_path / "task.toml").write_text("")
    with pytest.raises(BadTask, match="there is neither"):
        load(tmp_path)


def test_a_harbor_directory_whose_dockerfile_only_copies_is_built_and_judged_by_its_tests(tmp_path):
    tests = (
        "import pathlib\nimport pytest\n\nAPP = pathlib.Path.cwd()\n\n"
        "@pytest.mark.parametrize('name', ['start.txt', 'data/more.txt'])\n"
        "def test_it_is_there(name):\n    (APP / 'scratch').write_text('a test may write')\n"
        "    assert (APP / name).read_text() == name\n\n"
        "class TestDone:\n    def test_done(self):\n        assert (APP / 'done').exists()\n"
    )
    harbor(tmp_path / "foreign", tests, "allow_internet = false\n", COPIES)
    (tmp_path / "foreign/environment/start.txt").write_text("start.txt")
    (tmp_path / "foreign/environment/data").mkdir()
    (tmp_path / "foreign/environment/data/more.txt").write_text("data/more.txt")
    task = load(tmp_path / "foreign")
    assert task.skipped == ""
    app = built(task, tmp_path / "app")
    found = verdicts(task, app)
    assert outcomes(found) == {
        "test_outputs.py::TestDone::test_done": "failed",
        "test_outputs.py::test_it_is_there": "satisfied",
    }
    assert (found.progress, found.satisfied) == (0.5, 1)
    assert sorted(path.name for path in app.iterdir()) == ["data", "start.txt"]
    (app / "done").touch()
    assert verdicts(task, app).succeeded
    (app / "data/more.txt").write_text("other")
    assert outcomes(verdicts(task, app))["test_outputs.py::test_it_is_there"] == "failed"


@pytest.mark.parametrize(
    "line",
    ["COPY ../secret .", "COPY --from=other /x .", "COPY missing .", "COPY start.txt /etc/", "RUN true", "VOLUME /x"],
)
def test_a_dockerfile_that_does_more_than_copying_into_the_workspace_makes_a_task_skipped(line, tmp_path):
    harbor(tmp_path / "foreign", "def test_it(): ...\n", "", f"FROM ubuntu:24.04\n{line}\n")
    (tmp_path / "foreign/environment/start.txt").touch()
    assert line in load(tmp_path / "foreign").skipped


def test_tests_that_cannot_be_run_are_errors_of_the_evaluator(tmp_path):
    harbor(tmp_path / "foreign", "import no_such_module\n\ndef test_it(): ...\n", "", "FROM ubuntu:24.04\n")
    task = load(tmp_path / "foreign")
    found = verdicts(task, built(task, tmp_path / "app"))
    assert outcomes(found) == {"test_outputs.py::test_it": "error"}
    assert "no_such_module" in found.errors[0].detail
