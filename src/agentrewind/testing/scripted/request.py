"""What a script may look at, and what a script is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agentrewind.core.codec import Json
from agentrewind.testing.scripted.api import Api, Said
from agentrewind.testing.scripted.chat import Chat
from agentrewind.testing.scripted.steps import Step


@dataclass(frozen=True, slots=True)
class Request:
    """One request. All but `body` and `messages` is the same in every dialect, so that a script plays in any."""

    body: Json
    """As it came."""
    number: int
    """0 for the first request that the server got."""
    attempt: int
    """How many requests with these same messages came before."""
    header_names: tuple[str, ...]
    """Lower case; the values are not kept."""
    api: Api = field(default_factory=Chat)
    whole: Json = None
    """The body with what the provider kept of the conversation; None where `body` holds all of it."""

    @property
    def _whole(self) -> Json:
        return self.body if self.whole is None else self.whole

    @property
    def messages(self) -> list[Json]:
        """In the dialect's form, those that the provider kept included."""
        return self.api.messages(self._whole)

    @property
    def said(self) -> list[Said]:
        """Everything that the model reads, the system prompt included."""
        return self.api.said(self._whole)

    @property
    def turn(self) -> int:
        """How many turns of the assistant the request holds."""
        return sum(item.role == "assistant" for item in self.said)

    @property
    def results(self) -> list[str]:
        """The texts of the tool results, in order."""
        return [item.text for item in self.said if item.role == "tool"]

    @property
    def tools(self) -> list[str]:
        """The names of the declared tools."""
        return self.api.tools(self.body)

    def says(self, text: str) -> bool:
        """Whether any message, or the system prompt, contains `text`."""
        return any(text in item.text for item in self.said)


Script = Callable[[Request], Step] | Sequence[Step]
