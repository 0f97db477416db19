"""Rows for verl's actor out of the lines of `agentrewind learn export`.

    agentrewind learn export RUN... --credit sa-grpo --out data.jsonl
    python recipes/verl_rows.py data.jsonl /models/Qwen3-4B rows.pt

`rows.pt` holds tensors by verl's names: `DataProto.from_single_dict(torch.load("rows.pt"))`. What is missing in it is
`old_log_probs`: compute them with the actor, before the update. docs/training-engines.md says how verl has to be set.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from agentrewind.learn.training.rows import Row

CHAT = "openai_chat"


def row_of(line: dict[str, Any], tokenizer: Any) -> Row | None:
    """None where the template doesn't write what was answered after what was asked, word for word.

    Raises: ValueError: the call was made in another dialect than chat completions.
    """
    if line["dialect"] != CHAT:
        raise ValueError(f"{line['run']} {line['uid']} was made in {line['dialect']}, and chat templates read {CHAT}.")
    asked, answered = line["messages"], line["completion"]
    prompt = tokenizer.apply_chat_template(asked, tools=line["tools"], tokenize=False, add_generation_prompt=True)
    whole = tokenizer.apply_chat_template([*asked, *answered], tools=line["tools"], tokenize=False)
    if not whole.startswith(prompt) or whole == prompt:
        return None
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in (prompt, whole[len(prompt) :])]
    return Row(tuple(ids[0]), tuple(ids[1]), (), line["folded"])


def batch(rows: Sequence[Row], padding: int) -> dict[str, torch.Tensor]:
    """Prompts end, and responses begin, where the two meet; each token of a response has the advantage of its row."""
    before, after = max(len(row.prompt) for row in rows), max(len(row.output) for row in rows)
    prompts = torch.tensor([[padding] * (before - len(row.prompt)) + list(row.prompt) for row in rows])
    responses = torch.tensor([list(row.output) + [padding] * (after - len(row.output)) for row in rows])
    read = torch.tensor([[0] * (before - len(row.prompt)) + [1] * len(row.prompt) for row in rows])
    written = torch.tensor([[1] * len(row.output) + [0] * (after - len(row.output)) for row in rows])
    seen = torch.cat([read, written], 1)
    return {
        "prompts": prompts,
        "responses": responses,
        "input_ids": torch.cat([prompts, responses], 1),
        "attention_mask": seen,
        "position_ids": (seen.cumsum(1) - 1).clamp(min=0),
        "response_mask": written,
        "advantages": written * torch.tensor([[row.advantage] for row in rows]),
    }


def main(data: Path, model: str, to: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model)
    lines = [json.loads(line) for line in data.read_text(encoding="utf-8").splitlines()]
    rows = [row_of(line, tokenizer) for line in lines]
    kept = [row for row in rows if row is not None]
    if not kept:
        raise SystemExit("No line can be written by this chat template; nothing was written.")
    if len(kept) < len(rows):
        print(f"{len(rows) - len(kept)} of {len(rows)} lines are left out: this template rewrites what was said.")  # noqa: T201
    share = len(kept) / len(rows)  # what is folded counts all rows, and verl will take the mean over fewer
    torch.save(batch([replace(row, advantage=row.advantage * share) for row in kept], tokenizer.pad_token_id or 0), to)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
