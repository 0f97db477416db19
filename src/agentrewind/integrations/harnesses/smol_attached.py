"""An agent of smolagents whose tools, code and variables are known to a recorder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import smolagents
from smolagents.local_python_executor import CodeOutput, InterpreterError, PrintContainer

from agentrewind.core.codec import Json
from agentrewind.core.errors import NotRun
from agentrewind.core.tools import TOOLS, ToolSpec
from agentrewind.engine.signal import RewindSignal
from agentrewind.integrations.harnesses import smol_variables as variables
from agentrewind.integrations.harnesses.contract import Recorder

CODE = "python_interpreter"
"""What smolagents calls the running of code, and so the name of its tool node."""
GONE = "Note: the variables of earlier steps are gone, since the agent was started again. Define again what you need."


def attach(
    agent: Any, recorder: Recorder, *, records_tools: bool = True, offers: bool = True, knows: bool = True
) -> Callable[[], None]:
    """See `smol.attach`.

    `records_tools`: its tools don't do so themselves. `offers`: it may go back. `knows`: the interpreter holds what
    the code of its conversation has made.
    """
    undo = ExitStack()
    if records_tools:
        for tool in list(agent.tools.values()):
            if tool.name != "final_answer":
                _replace(undo, tool, "forward", _recorded(tool, recorder))
    if isinstance(agent, smolagents.CodeAgent):
        if offers:
            for spec in TOOLS:
                agent.tools[spec.name] = RewindTool(spec, recorder)
                undo.callback(agent.tools.pop, spec.name, None)
        executor = Executor(agent.python_executor, recorder, knows=knows)
        _replace(undo, agent, "python_executor", executor)
        _replace(undo, agent, "model", Model(agent.model, executor, recorder))
    return undo.close


def _replace(undo: ExitStack, owner: Any, name: str, value: Any) -> None:
    undo.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)


def _recorded(tool: Any, recorder: Recorder) -> Callable[..., Any]:
    forward = tool.forward

    def call(*args: Any, **kwargs: Any) -> Any:
        arguments = {**dict(zip(tool.inputs, args, strict=False)), **kwargs}
        try:
            return recorder.tool(tool.name, arguments, lambda: forward(*args, **kwargs))
        except NotRun as held:
            return str(held)

    return call


class RewindTool(smolagents.Tool):  # type: ignore[misc]
    """One of the two tools as a function that code can call."""

    skip_forward_signature_validation = True
    output_type = "string"

    def __init__(self, spec: ToolSpec, recorder: Recorder) -> None:
        self.name, self.description, self._recorder = spec.name, spec.description, recorder
        required = spec.parameters["required"]
        self.inputs = {
            name: {**field, **({} if name in required else {"nullable": True})}
            for name, field in spec.parameters["properties"].items()
        }
        super().__init__()

    def forward(self, *args: Any, **kwargs: Any) -> str:
        """Raises: RewindSignal: the agent goes back; nothing in its code catches that."""
        arguments = {**dict(zip(self.inputs, args, strict=False)), **kwargs}
        return self._recorder.rewind_tool(self.name, arguments)


class Executor:
    """An interpreter whose runs are tool nodes. One that is recorded is told again without running anything."""

    def __init__(self, inside: Any, recorder: Recorder, *, knows: bool) -> None:
        self.inside, self._recorder = inside, recorder
        self.knows = knows
        """Whether the interpreter holds what the code of this conversation has made."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inside, name)

    def __call__(self, code: str) -> CodeOutput:
        ran: list[CodeOutput] = []
        try:
            value = self._recorder.tool(CODE, {"code": code}, lambda: self._run(code, ran))
        except RewindSignal:
            return CodeOutput(output=None, logs="Going back.", is_final_answer=False)
        except NotRun as held:
            return CodeOutput(output=None, logs=str(held), is_final_answer=False)
        if not ran:
            self.knows = False
        if value["error"] is not None:
            self._print(value["logs"])
            raise InterpreterError(value["error"])
        return CodeOutput(ran[0].output if ran else value["output"], value["logs"], value["final"])

    def _run(self, code: str, ran: list[CodeOutput]) -> Json:
        """An error of the code is a value too: it is said again where the value is."""
        note = "" if self.knows else f"{GONE}\n"
        self.knows = True
        try:
            output = self.inside(code)
        except Exception as error:  # noqa: BLE001 (the agent's own code)
            ran.append(CodeOutput(output=None, logs="", is_final_answer=False))
            return {"output": None, "logs": note + self._printed(), "final": False, "error": str(error)}
        ran.append(output)
        logs, final = note + output.logs, output.is_final_answer
        return {"output": str(output.output), "logs": logs, "final": final, "error": None}

    def _printed(self) -> str:
        return str(getattr(self.inside, "state", {}).get("_print_outputs", ""))

    def _print(self, logs: str) -> None:
        """The agent looks there for what code has printed before it failed."""
        if hasattr(self.inside, "state"):
            self.inside.state["_print_outputs"] = PrintContainer()
            self.inside.state["_print_outputs"].value = logs


class Model:
    """A model before each call of which the variables are kept, and after which they are what they have to be."""

    def __init__(self, inside: Any, executor: Executor, recorder: Recorder) -> None:
        self._inside, self._executor, self._recorder = inside, executor, recorder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inside, name)

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        self._before()
        answer = self._inside.generate(*args, **kwargs)
        self._after()
        return answer

    def generate_stream(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        self._before()
        yield from self._inside.generate_stream(*args, **kwargs)
        self._after()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.generate(*args, **kwargs)

    def _before(self) -> None:
        self._recorder.hold(variables.held(self._executor.inside))

    def _after(self) -> None:
        back = self._recorder.held()
        if back is not None:
            variables.bring_back(self._executor.inside, back)
            self._executor.knows = True
