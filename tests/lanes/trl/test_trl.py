"""TRL as the engine: its loss is ours to the last digits, and what we override is what it was."""

from __future__ import annotations

import inspect
import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the extra `trl`: make test-trl")

import torch
from safetensors.torch import load_file
from transformers import Trainer
from trl import GRPOTrainer

from agentrewind.core.errors import UsageError
from agentrewind.learn.training import tiny
from agentrewind.learn.training.backend import Decoding, Loss, Prompt
from agentrewind.learn.training.embedded import Embedded
from agentrewind.learn.training.engines import need_torch
from agentrewind.learn.training.objective import clipped, row_means
from agentrewind.learn.training.recipe import Recipe
from agentrewind.learn.training.rows import Row
from agentrewind.learn.training.with_trl import Trl, WithTrl, shared, tensors

need_torch("")  # one thread: with more the order of sums, and the last digits, are another
RECIPE = Recipe("test", decoding=Decoding(max_tokens=8))
CLIPPED = Loss(clip=RECIPE.clip)


def opened(seed: int = 3, **settings: Any) -> WithTrl:
    return WithTrl(tiny.model(seed), tiny.tokenizer(), RECIPE, Trl(**settings))


def embedded(seed: int = 3) -> Embedded:
    return Embedded(tiny.model(seed), 0)


def some_rows(model: Any, count: int, seed: int = 0, off: float = 0.6) -> list[Row]:
    """Of different lengths; each token's ratio of new to old lies within e^±off, so many are clipped."""
    luck = random.Random(seed)
    rows = []
    for _ in range(count):
        prompt, output = ([luck.randrange(5, 60) for _ in range(luck.randint(1, 7))] for _ in range(2))
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([prompt + output])).logits[0]
        now = torch.log_softmax(logits.float(), -1)[len(prompt) - 1 : -1].gather(-1, torch.tensor(output)[:, None])[
            :, 0
        ]
        behaviour = tuple(float(each) + luck.uniform(-off, off) for each in now)
        rows.append(Row(tuple(prompt), tuple(output), behaviour, luck.choice([-1.0, 1.0]) * luck.uniform(0.1, 3.0)))
    return rows


def gradients(model: Any) -> dict[str, torch.Tensor]:
    return {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}


def agree(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor], within: float = 1e-6) -> None:
    assert ours.keys() == theirs.keys() != set()
    for name, each in ours.items():
        torch.testing.assert_close(theirs[name], each, rtol=0, atol=within, msg=name)


@pytest.mark.parametrize("count", [1, 2, 9])
def test_loss_and_gradients_are_those_of_the_embedded_engine(count: int) -> None:
    ours, theirs = embedded(), opened()
    rows = some_rows(ours.model, count)
    seen, told = (each.forward_backward(rows, CLIPPED, count) for each in (ours, theirs))
    assert told.loss == pytest.approx(seen.loss, abs=1e-6)
    assert told.divergence == pytest.approx(seen.divergence, abs=1e-6)
    assert told.clipped == pytest.approx(seen.clipped)
    assert count == 1 or 0 < told.clipped < 1
    gradient = gradients(ours.model)
    agree(gradient, gradients(theirs.trainer.model))
    assert theirs.optim_step(1e-3) == pytest.approx(ours.optim_step(1e-3), rel=1e-6)
    stepped = dict(theirs.trainer.model.named_parameters())
    for name, each in ours.model.named_parameters():
        felt = gradient[name].abs() > 1e-3  # Adam's first step is the sign of the rest, rounding included
        torch.testing.assert_close(stepped[name][felt], each[felt], rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["ratios of 1", "clipped ratios", "one token", "padded"])
def test_our_loss_is_trls_own_on_the_same_tensors(kind: str) -> None:
    """`_compute_loss` with `loss_type="grpo"`, given log-probabilities, beside ours: values and gradients."""
    trainer = opened().trainer
    trainer.model.train()
    lengths = {"one token": [1, 1, 1], "padded": [1, 5, 3, 2]}.get(kind, [4, 4, 4])
    luck = torch.Generator().manual_seed(1)
    width = max(lengths)
    logprobs = -3 * torch.rand(len(lengths), width, generator=luck)
    off = 0.0 if kind == "ratios of 1" else 0.8
    behaviour = logprobs + off * (2 * torch.rand(len(lengths), width, generator=luck) - 1)
    advantages = 2 * torch.randn(len(lengths), generator=luck)
    rows = [
        Row((7,), tuple(range(length)), tuple(behaviour[n, :length].tolist()), float(advantages[n]))
        for n, length in enumerate(lengths)
    ]
    batch = tensors(rows, 0, "cpu")
    ours, theirs = (logprobs.clone().requires_grad_() for _ in range(2))
    trainer._get_per_token_logps_and_entropies = lambda *_, **__: (theirs, torch.zeros_like(theirs), None)
    told = trainer._compute_loss(trainer.model, batch)
    mask = batch["completion_mask"].float()
    said = row_means(clipped(ours, batch["old_per_token_logps"], batch["advantages"], RECIPE.clip), mask).mean()
    torch.testing.assert_close(told, said, rtol=0, atol=1e-6)
    told.backward()
    said.backward()
    torch.testing.assert_close(theirs.grad, ours.grad, rtol=0, atol=1e-6)
    ratio = torch.exp(logprobs - batch["old_per_token_logps"])
    assert kind == "ratios of 1" or bool((((ratio - 1).abs() > RECIPE.clip) & (mask > 0)).any())


def test_in_parts_it_is_the_same_as_at_once() -> None:
    whole, parted = opened(), opened(at_once=12)
    rows = some_rows(whole.trainer.model, 8)
    seen, told = (each.forward_backward(rows, CLIPPED, 8) for each in (whole, parted))
    assert told.loss == pytest.approx(seen.loss, abs=1e-6)
    agree(gradients(whole.trainer.model), gradients(parted.trainer.model))


def test_a_row_without_worth_changes_nothing() -> None:
    plain, filled = opened(), opened()
    rows = some_rows(plain.trainer.model, 3)
    plain.forward_backward(rows, CLIPPED, 3)
    filled.forward_backward([*rows, replace(rows[0], advantage=0.0)], CLIPPED, 3)
    agree(gradients(plain.trainer.model), gradients(filled.trainer.model))
    shares = shared(rows, 5)
    assert [len(each) for each in shares] == [1, 1, 1, 1, 1]
    assert [each.advantage for share in shares for each in share if each.advantage] == [row.advantage for row in rows]


def test_it_samples_what_the_embedded_engine_samples() -> None:
    prompts = [Prompt((5, 6, 7), "a"), Prompt((8,), "b"), Prompt((5, 6, 7), "c")]
    decoding = Decoding(max_tokens=6)
    assert opened().sample(prompts, decoding) == embedded().sample(prompts, decoding)


def test_what_was_saved_comes_back_exactly_and_transformers_reads_it(tmp_path: Path) -> None:
    one, two = opened(), opened(seed=4)
    rows = some_rows(one.trainer.model, 4)
    one.forward_backward(rows, CLIPPED, 4)
    one.optim_step(1e-3)
    one.save(tmp_path)
    two.load(tmp_path)
    for each in (one, two):
        each.forward_backward(rows, CLIPPED, 4)
        each.optim_step(1e-3)
    before, after = (dict(each.trainer.model.named_parameters()) for each in (one, two))
    agree(*({name: each.detach() for name, each in weights.items()} for weights in (before, after)), within=0.0)
    fresh = Embedded(tiny.model(9), 0)
    fresh._load_weights(tmp_path)


def test_imitation_is_refused() -> None:
    with pytest.raises(UsageError, match="embedded"):
        opened().forward_backward([Row((5,), (6,), ())], Loss("imitation"), 1)


def parameters(method: Any) -> Sequence[str]:
    return list(inspect.signature(method).parameters)


def test_the_private_methods_are_what_they_were() -> None:
    """What `DecisionTrainer` counts on; where this fails, read TRL's changes before raising the pin."""
    assert parameters(GRPOTrainer._prepare_inputs) == ["self", "generation_batch"]
    assert parameters(GRPOTrainer._compute_loss) == ["self", "model", "inputs"]
    assert parameters(GRPOTrainer._get_per_token_logps_and_entropies)[:5] == [
        "self", "model", "input_ids", "attention_mask", "logits_to_keep",
    ]  # fmt: skip
    assert "self._prepare_inputs(inputs)" in inspect.getsource(Trainer.training_step)
    assert "self._get_per_token_logps_and_entropies(" in inspect.getsource(GRPOTrainer._compute_loss)
    loss = inspect.getsource(GRPOTrainer._compute_loss)
    for name in ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "advantages", "old_per_token_logps"):
        assert f'"{name}"' in loss


def test_two_processes_take_the_step_of_one(tmp_path: Path) -> None:
    weights = tmp_path / "tiny"
    tiny.model(3).save_pretrained(weights)
    tiny.tokenizer().save_pretrained(weights)
    program = Path(__file__).with_name("processes.py")
    environment = {**os.environ, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}
    for count in (1, 2):
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
        subprocess.run(
            [sys.executable, *launcher, str(program), str(weights), str(tmp_path / f"by-{count}")],
            env=environment, check=True, timeout=500,
        )  # fmt: skip
    one, two = (json.loads((tmp_path / f"by-{count}.json").read_text()) for count in (1, 2))
    assert two["sampled"] == one["sampled"]
    assert two["tokens"] == one["tokens"]
    for name in ("loss", "clipped", "norm", "divergence"):
        assert two[name] == pytest.approx(one[name], rel=1e-5), name
    before, after = (load_file(tmp_path / f"by-{count}" / "model.safetensors") for count in (1, 2))
    start = load_file(weights / "model.safetensors")
    assert any(not torch.equal(each, start[name]) for name, each in before.items())
    moved = {name: (each - start[name]).abs() > 9e-3 for name, each in before.items()}  # by a whole step, not by noise
    for name, each in before.items():
        torch.testing.assert_close(after[name][moved[name]], each[moved[name]], rtol=0, atol=1e-5)
