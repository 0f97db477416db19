"""The evaluators of the tasks that come with the package, on workspaces that hold nonsense.

In a file of its own, so that it can run beside `test_suites.py`.
"""

from __future__ import annotations

import shutil
import stat

import pytest

from agentrewind.compose.judging import rooms
from agentrewind.tasks.evaluator import Evaluator
from agentrewind.tasks.fingerprint import fingerprint, walk
from agentrewind.tasks.inspection import grounds
from agentrewind.tasks.shipped import suite

TASKS = [
    pytest.param(task, id=task.id, marks=() if task.suite == "core" else pytest.mark.slow) for task in suite("all")
]


@pytest.mark.parametrize("task", TASKS)
def test_whatever_an_agent_leaves_is_judged_without_an_error_of_the_evaluator(task):
    """Each file that the reference makes or changes is replaced by nonsense of several kinds, all at once."""
    if task.skipped:
        pytest.skip(task.skipped)
    with grounds(task, rooms()) as at:
        shipped = {path.relative_to(at.first): path.read_bytes() for path in walk(at.first) if path.is_file()}
        made = [path.relative_to(at.solved) for path in walk(at.solved) if path.is_file()]
        made = [
            name for name in made if shipped.get(name) != (at.solved / name).read_bytes() and ".git" not in name.parts
        ]
        for number, nonsense in enumerate((b"", b"\xff\x00\xfe", b"[1, null]\n", b"{}\n", b"Ledger: 1\n", None)):
            spoilt = shutil.copytree(at.solved, at.place / f"spoilt-{number}/app", symlinks=True)
            for name in made:
                (spoilt / name).chmod(stat.S_IRUSR | stat.S_IWUSR)
                (spoilt / name).unlink()
                (spoilt / name).mkdir() if nonsense is None else (spoilt / name).write_bytes(nonsense)
            before = fingerprint(spoilt)
            verdicts = Evaluator(task, rooms()).evaluate(spoilt)
            assert verdicts.errors == (), nonsense
            assert verdicts.satisfied == 0, nonsense
            assert fingerprint(spoilt) == before
