"""Exported lines as rows for verl's actor; and, where verl is installed, its loss beside ours."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra `trl`: make test-trl")

import torch

from agentrewind.learn.training import tiny
from agentrewind.learn.training.objective import clipped, row_means
from agentrewind.learn.training.rows import Row

MADE = runpy.run_path(str(Path(__file__).parents[3] / "recipes" / "verl_rows.py"))


def line(**changes: Any) -> dict[str, Any]:
    asked = [{"role": "system", "content": "minesweeper"}, {"role": "user", "content": "calls 3"}]
    answered = [{"role": "assistant", "content": "<action>(1,2)</action>"}]
    plain = {"run": "r", "uid": "rec_1", "dialect": "openai_chat", "tools": None, "folded": -1.5}
    return {**plain, "messages": asked, "completion": answered, **changes}


def test_a_line_becomes_the_tokens_of_prompt_and_answer() -> None:
    words = tiny.tokenizer()
    row = MADE["row_of"](line(), words)
    assert words.decode(row.prompt).split() == [
        "<|system|>", "minesweeper", "<|end|>", "<|user|>", "calls", "3", "<|end|>", "<|assistant|>",
    ]  # fmt: skip
    assert words.decode(row.output).split() == ["<action>", "(1,2)", "</action>", "<|end|>"]
    assert row.advantage == -1.5


def test_a_line_that_the_template_rewrites_is_left_out_and_another_dialect_is_refused() -> None:
    words = tiny.tokenizer()
    words.chat_template = "{% for m in messages[-1:] %}{{ m.content }} {% endfor %}"
    assert MADE["row_of"](line(), words) is None
    with pytest.raises(ValueError, match="anthropic_messages"):
        MADE["row_of"](line(dialect="anthropic_messages"), words)


def test_a_batch_has_the_names_and_shapes_of_verl() -> None:
    found = MADE["batch"]([Row((5, 6, 7), (8,), (), 2.0), Row((5,), (8, 9), (), -1.0)], 0)
    assert found["input_ids"].tolist() == [[5, 6, 7, 8, 0], [0, 0, 5, 8, 9]]
    assert found["attention_mask"].tolist() == [[1, 1, 1, 1, 0], [0, 0, 1, 1, 1]]
    assert found["position_ids"].tolist() == [[0, 1, 2, 3, 3], [0, 0, 0, 1, 2]]
    assert found["advantages"].tolist() == [[2.0, 0.0], [-1.0, -1.0]]
    assert found["response_mask"].tolist() == [[1, 0], [1, 1]]


@pytest.mark.parametrize("off", [0.0, 0.8])
def test_verls_loss_is_ours_on_the_same_tensors(off: float) -> None:
    pytest.importorskip("verl", reason="verl isn't part of any extra; run by hand with verl 0.9.1")
    from verl.trainer.ppo.core_algos import compute_policy_loss_vanilla
    from verl.workers.config import FSDPActorConfig

    luck = torch.Generator().manual_seed(1)
    rows = [Row((5,), tuple(range(7, 7 + n)), (), (-1.0) ** n * n) for n in (1, 4, 3)]
    given = MADE["batch"](rows, 0)
    old = -3 * torch.rand(3, 4, generator=luck)
    ours, theirs = ((old + off * torch.randn(3, 4, generator=luck.manual_seed(2))).requires_grad_() for _ in range(2))
    config = FSDPActorConfig(
        strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1, clip_ratio=0.2, clip_ratio_low=0.2,
        clip_ratio_high=0.2, clip_ratio_c=1e9, loss_agg_mode="seq-mean-token-mean",
    )  # fmt: skip
    mask = given["response_mask"].float()
    told, _ = compute_policy_loss_vanilla(
        old, theirs, given["advantages"], mask, loss_agg_mode="seq-mean-token-mean", config=config
    )
    advantages = torch.tensor([row.advantage for row in rows])
    said = row_means(clipped(ours, old, advantages, 0.2), mask).mean()
    torch.testing.assert_close(told, said, rtol=0, atol=1e-6)
    told.backward()
    said.backward()
    torch.testing.assert_close(theirs.grad, ours.grad, rtol=0, atol=1e-6)
