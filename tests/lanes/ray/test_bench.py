"""The benchmark on a local Ray."""

from __future__ import annotations

import pytest

from tests.e2e.test_bench import bench, suite  # noqa: F401 (a fixture)

pytestmark = [pytest.mark.lane, pytest.mark.timeout(300)]
pytest.importorskip("ray", reason="Ray isn't installed here (make test-ray)")


def test_a_local_ray_gives_the_same_table(suite, tmp_path) -> None:  # noqa: F811
    arms = ("--strategies", "continue,rewind", "--tasks", "first")
    here = bench(suite, tmp_path / "here", *arms)
    there = bench(suite, tmp_path / "ray", *arms, "--ray", "local")
    assert (there["tally"]["made"], there["tally"]["abnormal"]) == (2, 0)
    assert there["cells"] == here["cells"]
