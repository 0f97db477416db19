"""The two tools, defined once. Harnesses and dialects restate them in their own types."""

from __future__ import annotations

from dataclasses import dataclass

from agentrewind.core.codec import Json

CANDIDATES = "backtrack_candidates"
COMMIT = "backtrack_commit"

GUIDANCE = (
    "You can go back. Every step of this session is a checkpoint of the conversation and of the files in the workspace"
    f" together. When work went wrong in a way that is hard or impossible to repair by going on (files lost or"
    f" overwritten, a wrong order of steps, a wrong assumption that much was built on), call {CANDIDATES} to see the"
    f" checkpoints and {COMMIT} to return to one. Small mistakes are cheaper to repair where you are."
)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as neutral JSON Schema."""

    name: str
    description: str
    parameters: Json


TOOLS: tuple[ToolSpec, ToolSpec] = (
    ToolSpec(
        CANDIDATES,
        "List the checkpoints of this session that you can go back to, with what each did to the files. Changes"
        " nothing. " + GUIDANCE,
        {
            "type": "object",
            "properties": {
                "reason": {"type": "string", "description": "Why you consider going back."},
            },
            "required": ["reason"],
        },
    ),
    ToolSpec(
        COMMIT,
        "Go back to a checkpoint: the conversation and the files in the workspace return to the moment just before the"
        " step record_uid was taken, and all that came after is abandoned. Only memory_summary crosses over. Call it"
        " alone: other calls in the same turn are not executed.",
        {
            "type": "object",
            "properties": {
                "record_uid": {"type": "string", "description": "The checkpoint, as listed, for example rec_000012."},
                "memory_summary": {
                    "type": "string",
                    "description": "A note to yourself, the only thing that you will remember: what was tried; the"
                    " evidence that it failed; what is already done and delivered and need not be repeated; which"
                    " effects outside the workspace still stand; what to do next instead.",
                },
                "reason": {"type": "string", "description": "Why this checkpoint."},
            },
            "required": ["record_uid", "memory_summary"],
        },
    ),
)

NAMES = frozenset(tool.name for tool in TOOLS)
