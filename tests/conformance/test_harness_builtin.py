"""The built-in agent keeps the contract of rewinds. The long form of what test_matrix.py says of it."""

import pytest

from agentrewind.testing.harnesses import RewindContract

pytestmark = pytest.mark.slow


class TestBuiltin(RewindContract):
    agent = "builtin"
    place = "agentrewind.integrations.harnesses.builtin:BuiltinAgent"
    not_applicable = {  # noqa: RUF012
        "streamed": "it asks for whole answers",
        "async": "it is synchronous",
    }
