"""The harnesses that we have adapters for: by the name of an agent, and by the class of one that a program has made."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from agentrewind.core.codec import Json
from agentrewind.core.errors import UsageError
from agentrewind.integrations.harnesses.contract import Attached, Job, Outcome

_HOME = "agentrewind.integrations.harnesses"


class Adapter(Protocol):
    """A harness that `agentrewind run` can start, also in other processes, where its class is called without arguments.

    Attributes:
        name: that of the agent.
        preload: the modules that a process imports from which processes of this agent are forked.
        seeds: whether it goes on from `Job.seed`.
        options: the settings that it knows, all optional.
    """

    @property
    def name(self) -> str: ...

    preload: ClassVar[tuple[str, ...]]
    seeds: ClassVar[bool]
    options: ClassVar[tuple[str, ...]]

    def run(self, job: Job) -> Outcome: ...


@dataclass(frozen=True, slots=True)
class Known:
    """An adapter of ours, not imported yet.

    Attributes:
        place: `module:Class`. package: the module that it needs. extra: what installs it. title: its own name.
    """

    place: str
    package: str = ""
    extra: str = ""
    title: str = ""


KNOWN = {
    "builtin": Known("builtin:BuiltinAgent"),
    "smolagents": Known("smol:CodeAgent", "smolagents", "smolagents", "smolagents"),
    "smolagents-tools": Known("smol:ToolCallingAgent", "smolagents", "smolagents", "smolagents"),
    "qwen-agent": Known("qwen:FnCallAgent", "qwen_agent", "qwen", "Qwen-Agent"),
    "mini-swe-agent": Known("mini:MiniSweAgent", "minisweagent", "mini", "mini-SWE-agent"),
    "langchain": Known("lang:LangChainAgent", "langchain", "langchain", "LangChain"),
    "openai-agents": Known("agents_sdk:OpenAIAgent", "agents", "openai-agents", "The OpenAI Agents SDK"),
    "pydantic-ai": Known("pydai:PydanticAgent", "pydantic_ai", "pydantic-ai", "PydanticAI"),
}
"""By the names that `agentrewind run --agent` takes."""

ATTACHED = {
    "agents": "agents_sdk:attach",
    "langgraph": "lang:attach",
    "pydantic_ai": "pydai:attach",
    "qwen_agent": "qwen:attach",
    "smolagents": "smol:attach",
}
"""What attaches an agent to a session, by the package that its class, or one that it inherits from, is defined in."""


def harness_by_name(name: str) -> Adapter:
    """The adapter of that name; `package.module:Class` names one of somebody else.

    Raises:
        UsageError: unknown, or its package isn't installed.
    """
    known = KNOWN.get(name)
    if known is None and ":" in name:
        return _of_somebody(name)
    if known is None:
        raise UsageError(
            f"There is no agent {name!r}.{_meant(name)} There are: {', '.join(KNOWN)}; and any adapter, as"
            " package.module:Class."
        )
    if known.package and importlib.util.find_spec(known.package) is None:
        raise UsageError(f"{known.title} isn't installed here. `pip install 'agentrewind[{known.extra}]'` adds it.")
    made: Adapter = _named(f"{_HOME}.{known.place}")()
    return made


def _meant(name: str) -> str:
    """Which of our agents may have been meant, as a question; empty where none comes near."""
    wanted = name.strip().lower()
    near = [known for known in KNOWN if wanted and wanted in known] or difflib.get_close_matches(wanted, KNOWN, 1, 0.5)
    return f" Did you mean {' or '.join(near)}?" if near else ""


def _of_somebody(name: str) -> Adapter:
    try:
        made: Adapter = _named(name)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"There is no adapter at {name!r}: {error}. It is named as package.module:Class.") from error
    missing = [item for item in ("name", "preload", "seeds", "options", "run") if not hasattr(made, item)]
    if missing:
        raise UsageError(f"What {name!r} makes is no adapter: it has no {', '.join(missing)}.")
    return made


def checked_options(adapter: Adapter, options: Mapping[str, Json]) -> None:
    """Raises: UsageError: the adapter doesn't know one of these settings."""
    for name in options:
        if name not in adapter.options:
            known = ", ".join(adapter.options) or "none"
            raise UsageError(f"The agent {adapter.name} has no setting {name!r}. It has: {known}.")


def attach(agent: object, recorder: Attached) -> Callable[[], None]:
    """Attach an agent to the recorder of a run; what undoes that, which is nothing where its adapter has none.

    Raises:
        UsageError: there is no adapter for it.
    """
    for kind in type(agent).__mro__:
        place = ATTACHED.get(kind.__module__.partition(".")[0])
        if place is not None:
            undo: Callable[[], None] | None = _named(f"{_HOME}.{place}")(agent, recorder)
            return undo or (lambda: None)
    raise UsageError(
        f"There is no adapter for a {type(agent).__name__}. There are some for agents of: {', '.join(ATTACHED)}."
        " Its calls of a model are recorded all the same; record those of its tools with agentrewind.tool."
    )


def _named(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
