"""TRL as the engine, and with it accelerate, FSDP, PEFT and vLLM (retrospective.md, section 8).

Our rows go through TRL's own `training_step` and loss. That is the mean over the tokens of a row and then over rows,
and positively homogeneous in the advantage: so a part of a step, seen by one of several processes, is right when its
advantages are scaled.

Where a program is started on several processes (`accelerate launch`), the first one trains; the others do, call by
call, what it does.
"""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import broadcast_object_list, gather_object
from datasets import Dataset
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from agentrewind.core.errors import UsageError
from agentrewind.learn.training.backend import Backend, Decoding, Loss, Pass, Prompt, Sampled
from agentrewind.learn.training.chat import Chat
from agentrewind.learn.training.embedded import Embedded, step_if_finite
from agentrewind.learn.training.policy import Engine
from agentrewind.learn.training.rows import Row, parts_of

if TYPE_CHECKING:
    from agentrewind.learn.training.recipe import Recipe

STATE = "accelerate"


@dataclass(frozen=True, slots=True)
class Trl:
    """Opens the engine of a recipe: `Recipe(engine=Trl(...))`."""

    lora: Any = None
    """A `peft.LoraConfig`; None trains all weights."""
    vllm: bool = False
    """Sample with vLLM, in these processes; its weights follow at each `sync`. Needs a GPU."""
    dtype: str = "float32"
    """Of the weights as they are loaded."""
    at_once: int = 16_384
    """Tokens, padding included, that go through the model at a time in one process while it is trained."""
    more: dict[str, Any] = field(default_factory=dict)
    """More settings of `trl.GRPOConfig`, such as `activation_checkpointing` or `vllm_gpu_memory_utilization`."""

    def __call__(self, recipe: Recipe) -> Engine:
        """Raises: UsageError: the recipe's model isn't there. In a process that isn't the first it doesn't return."""
        try:
            words = AutoTokenizer.from_pretrained(recipe.model)
            model = AutoModelForCausalLM.from_pretrained(recipe.model, dtype=self.dtype)
        except OSError as error:
            raise UsageError(f"There are no weights at {recipe.model}: {error}. Nothing was trained.") from error
        chat = Chat(words)
        return Engine(led(WithTrl(model, words, recipe, self)), chat)


class DecisionTrainer(GRPOTrainer):  # type: ignore[misc]  # TRL has no types where we check ours
    """TRL's trainer over rows that are credited already.

    It overrides two private methods, which TRL may change: `_prepare_inputs`, where TRL would sample and reward, and
    `_get_per_token_logps_and_entropies`, to keep what was seen. `tests/lanes/trl` fails where they aren't what they
    were.
    """

    batch: dict[str, Tensor]
    """The last step's."""
    seen: Tensor
    """The log-probabilities of its output tokens, (rows, length)."""

    def _prepare_inputs(self, generation_batch: Sequence[Row]) -> dict[str, Tensor]:
        self.batch = tensors(generation_batch, self._tokenizer.pad_token_id, self.accelerator.device)
        return self.batch

    def _get_per_token_logps_and_entropies(self, *args: Any, **more: Any) -> Any:
        found = super()._get_per_token_logps_and_entropies(*args, **more)
        self.seen = found[0].detach()
        return found


def tensors(rows: Sequence[Row], padding: int, device: Any) -> dict[str, Tensor]:
    """Rows as TRL's loss takes them: prompts end, and outputs begin, where the two meet."""
    prompts = [list(row.prompt) for row in rows]
    outputs = [list(row.output) for row in rows]
    before, after = max(map(len, prompts)), max(map(len, outputs))

    def made(values: list[list[Any]], kind: torch.dtype) -> Tensor:
        return torch.tensor(values, dtype=kind, device=device)

    return {
        "prompt_ids": made([[padding] * (before - len(each)) + each for each in prompts], torch.long),
        "prompt_mask": made([[0] * (before - len(each)) + [1] * len(each) for each in prompts], torch.long),
        "completion_ids": made([each + [padding] * (after - len(each)) for each in outputs], torch.long),
        "completion_mask": made([[1] * len(each) + [0] * (after - len(each)) for each in outputs], torch.long),
        "old_per_token_logps": made(
            [[*row.behaviour] + [0.0] * (after - len(row.output)) for row in rows], torch.float
        ),
        "advantages": torch.tensor([row.advantage for row in rows], dtype=torch.float, device=device),
    }


class WithTrl:
    """Keeps `learn.training.backend.Backend`, for the clipped loss. One of several processes, or the only one."""

    def __init__(self, model: Any, words: Any, recipe: Recipe, settings: Trl) -> None:
        place = tempfile.mkdtemp(prefix="agentrewind-trl-")
        weakref.finalize(self, shutil.rmtree, place, ignore_errors=True)
        self._at_once, self._clip_gradient, self._clip = settings.at_once, recipe.gradient_clip, recipe.clip
        self.trainer = DecisionTrainer(
            model,
            _unrewarded,
            _config(recipe, settings, place),
            train_dataset=Dataset.from_dict({"prompt": [""]}),
            processing_class=words,
            peft_config=settings.lora,
        )
        self._accelerator = self.trainer.accelerator
        if self.trainer.is_fsdp_enabled and not settings.vllm:
            raise UsageError("Weights that FSDP has spread can't be sampled from here: set vllm. Nothing was trained.")
        weights = [each for each in self.trainer.model.parameters() if each.requires_grad]
        optimizer = torch.optim.AdamW(weights, lr=0.0, weight_decay=recipe.weight_decay)
        self._model, self._optimizer = self._accelerator.prepare(self.trainer.model, optimizer)
        self.trainer.model_wrapped = self._model
        self.trainer.current_gradient_accumulation_steps = 1
        self._end = int(words.eos_token_id)

    @property
    def processes(self) -> int:
        return int(self._accelerator.num_processes)

    @property
    def first(self) -> bool:
        return bool(self._accelerator.is_main_process)

    def sample(self, prompts: Sequence[Prompt], decoding: Decoding) -> list[Sampled]:
        here, of = self._accelerator.process_index, self.processes
        mine = list(enumerate(prompts))[here::of]
        found = self._sampled([prompt for _, prompt in mine], decoding) if mine else []
        numbered = [(number, each) for (number, _), each in zip(mine, found, strict=True)]
        everywhere = gather_object(numbered) if of > 1 else numbered
        return [each for _, each in sorted(everywhere, key=lambda item: item[0])]

    def forward_backward(self, rows: Sequence[Row], loss: Loss, of: int) -> Pass:
        if loss.kind != "clipped" or loss.clip != self._clip:
            raise UsageError("TRL trains with the clipped loss of its recipe alone: clone with the embedded engine.")
        self._model.train()
        here, count = self._accelerator.process_index, self.processes
        parts = [shared(part, count)[here] for part in parts_of(rows, self._at_once * count)]
        seen = torch.stack([self._pass(part, of / count) for part in parts]).sum(0)
        total, divergence, outside, written, tokens = self._accelerator.reduce(seen, "sum").tolist()
        return Pass(total / count, divergence / count, outside / (written or 1), int(tokens))

    def optim_step(self, rate: float) -> float:
        weights = [each for group in self._optimizer.param_groups for each in group["params"]]
        norm = float(self._accelerator.clip_grad_norm_(weights, self._clip_gradient))
        step_if_finite(self._optimizer, norm, rate)
        return norm

    def sync(self) -> None:
        if self.trainer.use_vllm:
            self.trainer.vllm_generation.sync_weights()

    def save(self, directory: Path) -> None:
        self.trainer.save_model(str(directory))
        self._accelerator.save_state(str(directory / STATE))

    def load(self, directory: Path) -> None:
        self._accelerator.load_state(str(directory / STATE))
        self._optimizer.zero_grad()

    def _sampled(self, prompts: Sequence[Prompt], decoding: Decoding) -> list[Sampled]:
        if self.trainer.use_vllm:
            return self._sampled_by_vllm(prompts, decoding)
        model = self._accelerator.unwrap_model(self._model)
        return Embedded(model, self._end, device=str(self._accelerator.device)).sample(prompts, decoding)

    def _sampled_by_vllm(self, prompts: Sequence[Prompt], decoding: Decoding) -> list[Sampled]:
        """The seeds of prompts say nothing to vLLM's engine: it draws on."""
        sampler = self.trainer.vllm_generation
        sampler.temperature, sampler.top_p, sampler.top_k = decoding.temperature, decoding.top_p, decoding.top_k or -1
        sampler.max_completion_length = decoding.max_tokens
        _, tokens, logprobs, _ = sampler.generate(
            prompts=[list(prompt.tokens) for prompt in prompts], images=None, num_generations=1
        )
        return [
            Sampled(tuple(each), tuple(float(ranked[0]) for ranked in logs))
            for each, logs in zip(tokens, logprobs, strict=True)
        ]

    def _pass(self, rows: Sequence[Row], of: float) -> Tensor:
        """Loss, divergence, tokens outside of the clip range, tokens written, tokens read: of this process."""
        scaled = [replace(row, advantage=row.advantage * len(rows) / of) for row in rows]
        loss = self.trainer.training_step(self._model, scaled, None)
        batch = self.trainer.batch
        counted = (batch["advantages"] != 0).unsqueeze(-1)
        mask, prompts = batch["completion_mask"] * counted, batch["prompt_mask"] * counted
        change = (self.trainer.seen - batch["old_per_token_logps"]) * mask
        divergence = ((torch.exp(change) - 1 - change).sum(-1) / mask.sum(-1).clamp(min=1)).sum() / of
        outside = ((torch.exp(change) - 1).abs() > self._clip).sum()
        return torch.stack([loss.float(), divergence, outside, mask.sum(), mask.sum() + prompts.sum()])


def shared(rows: Sequence[Row], processes: int) -> list[list[Row]]:
    """The rows of each process, as many in each (TRL gathers by row): filled up with what is worth nothing."""
    nothing = replace(rows[0], advantage=0.0)
    filled = [*rows, *[nothing] * (-len(rows) % processes)]
    return [filled[here::processes] for here in range(processes)]


def led(backend: WithTrl) -> Backend:
    """What trains in the first process. In the others this carries out what that one does, and ends the program."""
    if backend.processes == 1:
        return backend
    if backend.first:
        return _Leader(backend)
    while True:
        name, values = _told(None)
        if name is None:
            sys.exit(0)
        getattr(backend, name)(*values)


class _Leader:
    """Keeps `learn.training.backend.Backend`: each call is made in all processes."""

    def __init__(self, backend: WithTrl) -> None:
        self._backend = backend
        atexit.register(_told, (None, ()))

    def sample(self, prompts: Sequence[Prompt], decoding: Decoding) -> list[Sampled]:
        _told(("sample", (prompts, decoding)))
        return self._backend.sample(prompts, decoding)

    def forward_backward(self, rows: Sequence[Row], loss: Loss, of: int) -> Pass:
        _told(("forward_backward", (rows, loss, of)))
        return self._backend.forward_backward(rows, loss, of)

    def optim_step(self, rate: float) -> float:
        _told(("optim_step", (rate,)))
        return self._backend.optim_step(rate)

    def sync(self) -> None:
        _told(("sync", ()))
        self._backend.sync()

    def save(self, directory: Path) -> None:
        _told(("save", (directory,)))
        self._backend.save(directory)

    def load(self, directory: Path) -> None:
        _told(("load", (directory,)))
        self._backend.load(directory)


def _told(call: Any) -> Any:
    """What the first process says, in each of them."""
    return broadcast_object_list([call], from_process=0)[0]


def _config(recipe: Recipe, settings: Trl, place: str) -> GRPOConfig:
    """Settings under which TRL's loss is ours; the rest is TRL's business."""
    chosen = {
        "activation_checkpointing": False,
        "per_device_train_batch_size": 2,
        "num_generations": 2,
        "vllm_mode": "colocate",
        "use_cpu": not torch.cuda.is_available(),
        "bf16": settings.dtype == "bfloat16",
        "disable_dropout": True,
        **settings.more,
    }
    return GRPOConfig(
        output_dir=place,
        loss_type="grpo",
        beta=0.0,
        epsilon=recipe.clip,
        temperature=1.0,
        max_completion_length=recipe.decoding.max_tokens,
        use_vllm=settings.vllm,
        vllm_importance_sampling_correction=False,
        report_to="none",
        seed=recipe.seed,
        **chosen,
    )


def _unrewarded(*_: Any, **__: Any) -> list[float]:
    raise AssertionError("rows come with their advantages; nothing is rewarded here")
