from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.proxy.servers import Passing, Provider


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    made.start()
    yield made
    made.stop()


@pytest.fixture
def interposer() -> Passing:
    return Passing()
