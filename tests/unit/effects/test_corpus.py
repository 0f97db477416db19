"""How often the class of a real-life command is right.

`held_out.tsv` was written before the classifier and is never used to tune it; `tuning.tsv` may be.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrewind.effects.classify import Classifier
from tests.unit.effects.corpus import Scores, cases, scores, workspace


@pytest.fixture
def scored(tmp_path, request) -> Scores:
    root = workspace(tmp_path)
    found = scores(root, cases(request.param, root))
    print(f"\n{request.param}\n{found.table()}")
    return found


@pytest.mark.parametrize("scored", ["held_out", "tuning"], indirect=True)
def test_what_reaches_the_network_is_said_to(scored):
    assert scored.expected["external"] > 150
    assert scored.recall("external") >= 0.95, scored.wrong
    assert scored.precision("external") >= 0.95, scored.wrong


@pytest.mark.parametrize("scored", ["held_out", "tuning"], indirect=True)
def test_the_other_classes_are_mostly_right(scored):
    for kind in ("outside", "workspace", "read"):
        assert scored.recall(kind) >= 0.9, scored.wrong
        assert scored.precision(kind) >= 0.9, scored.wrong


@pytest.mark.parametrize("scored", ["held_out", "tuning"], indirect=True)
def test_an_unknown_program_never_counts_as_one_that_reads(scored):
    assert [case for given, case in scored.wrong if case.expected == "unknown" and given == "read"] == []


def test_no_command_stands_in_both_halves(tmp_path: Path):
    halves = [{case.command for case in cases(name, tmp_path)} for name in ("held_out", "tuning")]
    assert all(len(half) > 300 for half in halves)
    assert halves[0] & halves[1] == set()


@pytest.mark.parametrize(
    "command",
    [
        'echo "git push"',
        "grep -r curl .",
        "man ssh",
        "echo 'docker run x' | wc -c",
        "cat <<'E'\ncurl -X POST https://x\nE",
        "# twine upload dist/*",
    ],
)
def test_a_command_that_is_only_spoken_of_is_no_effect(tmp_path, command):
    effects = Classifier.of(tmp_path, home="/home/dev").command(command)
    assert [effect.kind for effect in effects] == ["read"]
