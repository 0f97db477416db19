"""The engine in this process: a model of transformers, on the CPU or one GPU."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from agentrewind.core.errors import UsageError
from agentrewind.learn.training.backend import Decoding, Loss, Pass, Prompt, Sampled
from agentrewind.learn.training.objective import clipped, row_means, token_logprobs
from agentrewind.learn.training.rows import Row, Tokens, parts_of

STATE = "trainer.pt"
TIED = "lm_head.weight"
"""Left out by transformers where it is the same as the embeddings."""
WEIGHTS, ADAPTER = "model.safetensors", "adapter_model.safetensors"


@dataclass(frozen=True, slots=True)
class Settings:
    """The defaults are those settled (retrospective.md, section 6)."""

    weight_decay: float = 0.01
    gradient_clip: float = 1.0
    together: int = 256
    """So many prompts are sampled from at a time."""
    at_once: int = 16_384
    """Tokens, padding included, that go through the model at a time while it is trained."""


def step_if_finite(optimizer: Any, norm: float, rate: float) -> None:
    """Move the weights along gradients of this norm, at this rate; not at all where it is no number. The gradients are
    gone either way.
    """
    for group in optimizer.param_groups:
        group["lr"] = rate
    if math.isfinite(norm):
        optimizer.step()
    optimizer.zero_grad()


class Embedded:
    """Keeps `learn.training.backend.Backend`. Samples with a key-value cache; prompts that are equal are read once."""

    def __init__(self, model: Any, end: int, *, device: str = "cpu", settings: Settings = Settings()) -> None:
        self.model = model.to(device)
        self._end = end
        self._device = torch.device(device)
        self._settings = settings
        self._trained = [weights for weights in model.parameters() if weights.requires_grad]
        self._optimizer = torch.optim.AdamW(self._trained, lr=0.0, weight_decay=settings.weight_decay)

    def sample(self, prompts: Sequence[Prompt], decoding: Decoding) -> list[Sampled]:
        self.model.eval()
        found: list[Sampled] = []
        with torch.inference_mode():
            for first in range(0, len(prompts), self._settings.together):
                found += self._sampled(prompts[first:][: self._settings.together], decoding)
        return found

    def forward_backward(self, rows: Sequence[Row], loss: Loss, of: int) -> Pass:
        self.model.train()
        passes = [self._pass(part, loss, of) for part in parts_of(rows, self._settings.at_once)]
        tokens = sum(part.tokens for part in passes)
        written = sum(len(row.output) for row in rows) or 1
        return Pass(
            sum(part.loss for part in passes),
            sum(part.divergence for part in passes),
            sum(part.clipped for part in passes) / written,
            tokens,
        )

    def optim_step(self, rate: float) -> float:
        norm = float(torch.nn.utils.clip_grad_norm_(self._trained, self._settings.gradient_clip))
        step_if_finite(self._optimizer, norm, rate)
        return norm

    def sync(self) -> None:
        """Nothing to do: the weights that are trained are those that are sampled from."""

    def save(self, directory: Path) -> None:
        self.model.save_pretrained(directory)
        chance = {"cpu": torch.get_rng_state()}
        if self._device.type == "cuda":
            chance["cuda"] = torch.cuda.get_rng_state(self._device)
        torch.save({"optimizer": self._optimizer.state_dict(), "chance": chance}, directory / STATE)

    def load(self, directory: Path) -> None:
        self._load_weights(directory)
        kept = torch.load(directory / STATE, map_location="cpu", weights_only=True)
        self._optimizer.load_state_dict(kept["optimizer"])
        self._optimizer.zero_grad()
        torch.set_rng_state(kept["chance"]["cpu"])
        if self._device.type == "cuda" and "cuda" in kept["chance"]:
            torch.cuda.set_rng_state(kept["chance"]["cuda"], self._device)

    def _load_weights(self, directory: Path) -> None:
        if (directory / ADAPTER).exists():
            from peft import set_peft_model_state_dict

            set_peft_model_state_dict(self.model, load_file(directory / ADAPTER))
            return
        found = self.model.load_state_dict(load_file(directory / WEIGHTS), strict=False)
        missing = [name for name in found.missing_keys if name != TIED]
        if missing or found.unexpected_keys:
            raise UsageError(f"The weights in {directory} are those of another model ({len(missing)} are missing).")
        self.model.tie_weights()

    def _sampled(self, prompts: Sequence[Prompt], decoding: Decoding) -> list[Sampled]:
        draws = [random.Random(prompt.seed).random for prompt in prompts]  # noqa: S311 (a policy's, no secret)
        tokens: list[list[int]] = [[] for _ in prompts]
        logprobs: list[list[float]] = [[] for _ in prompts]
        logits, reading = self._read([prompt.tokens for prompt in prompts])
        alive = list(range(len(prompts)))
        """For each row of the batch the number of its prompt."""
        for _ in range(decoding.max_tokens):
            chance = torch.tensor([draws[number]() for number in alive], dtype=torch.float64, device=self._device)
            chosen = drawn(logits, decoding, chance)
            kept = token_logprobs(logits.unsqueeze(1), chosen.unsqueeze(1)).squeeze(1).tolist()
            for number, token, logprob in zip(alive, chosen.tolist(), kept, strict=True):
                tokens[number].append(token)
                logprobs[number].append(logprob)
            going = [place for place, token in enumerate(chosen.tolist()) if token != self._end]
            if not going:
                break
            if len(going) < len(alive):
                chosen = chosen[going]
                reading.keep(going)
                alive = [alive[place] for place in going]
            logits = self._next(reading, chosen)
        return [Sampled(tuple(each), tuple(logs)) for each, logs in zip(tokens, logprobs, strict=True)]

    def _read(self, prompts: Sequence[Tokens]) -> tuple[Tensor, _Reading]:
        """Read prompts, each different one once; the logits after each."""
        different = list(dict.fromkeys(prompts))
        ids, mask = self._left_padded(different)
        cache = DynamicCache()
        logits = self._logits(ids, mask, cache)
        reading = _Reading(cache, mask)
        if len(different) < len(prompts):
            places = {tokens: place for place, tokens in enumerate(different)}
            each = [places[tokens] for tokens in prompts]
            reading.keep(each)
            logits = logits[each]
        return logits, reading

    def _next(self, reading: _Reading, chosen: Tensor) -> Tensor:
        reading.mask = torch.cat([reading.mask, torch.ones_like(reading.mask[:, :1])], dim=1)
        return self._logits(chosen.unsqueeze(1), reading.mask, reading.cache)

    def _logits(self, ids: Tensor, mask: Tensor, cache: Any) -> Tensor:
        """Those after the last token of each row, (rows, vocabulary), float32."""
        places = _places(mask)[:, -ids.shape[1] :]
        answer = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=places,
            cache=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return torch.as_tensor(answer.logits[:, -1].float())

    def _pass(self, rows: Sequence[Row], loss: Loss, of: int) -> Pass:
        """`clipped` of the result is a number of tokens."""
        ids, mask = self._left_padded([(*row.prompt, *row.output) for row in rows])
        width = max(len(row.output) for row in rows)
        logits = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=_places(mask),
            use_cache=False,
            logits_to_keep=width + 1,
        ).logits[:, :-1]
        logprobs = token_logprobs(logits, ids[:, -width:])
        written = self._right_aligned([[1.0] * len(row.output) for row in rows], width)
        if loss.kind == "imitation":
            total = row_means(-logprobs, written).sum() / of
            total.backward()
            return Pass(float(total.detach()), 0.0, 0.0, int(mask.sum()))
        behaviour = self._right_aligned([row.behaviour for row in rows], width)
        advantages = torch.tensor([row.advantage for row in rows], dtype=torch.float32, device=self._device)
        total = row_means(clipped(logprobs, behaviour, advantages, loss.clip), written).sum() / of
        total.backward()
        with torch.no_grad():
            change = (logprobs - behaviour) * written
            divergence = row_means(torch.exp(change) - 1 - change, written).sum() / of
            outside = ((torch.exp(change) - 1).abs() > loss.clip).sum()
        return Pass(float(total.detach()), float(divergence), float(outside), int(mask.sum()))

    def _left_padded(self, rows: Sequence[Tokens]) -> tuple[Tensor, Tensor]:
        """Ids and mask, (rows, length): every row ends in the last column."""
        width = max(map(len, rows))
        ids = torch.tensor([[self._end] * (width - len(row)) + list(row) for row in rows], device=self._device)
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=self._device)
        return ids, mask

    def _right_aligned(self, rows: Sequence[Sequence[float]], width: int) -> Tensor:
        padded = [[0.0] * (width - len(row)) + list(row) for row in rows]
        return torch.tensor(padded, dtype=torch.float32, device=self._device)


@dataclass
class _Reading:
    """What the model has read of each row of a batch."""

    cache: Any
    mask: Tensor

    def keep(self, places: list[int]) -> None:
        """Only these rows, in this order; one may come more than once."""
        self.cache.batch_select_indices(torch.tensor(places, device=self.mask.device))
        self.mask = self.mask[places]


def drawn(logits: Tensor, decoding: Decoding, chance: Tensor) -> Tensor:
    """One token a row: that in whose part of the cumulated probabilities `chance` (0 to 1) falls.

    Args:
        logits: (rows, vocabulary).
        decoding: temperature, then `top_k`, then `top_p` of what is left.
        chance: (rows,).

    Returns:
        (rows,)
    """
    if decoding.temperature <= 0:
        return logits.argmax(-1)
    ordered, order = torch.sort(torch.softmax(logits.double() / decoding.temperature, -1), descending=True, stable=True)
    if decoding.top_k:
        ordered, order = ordered[:, : decoding.top_k], order[:, : decoding.top_k]
        ordered = ordered / ordered.sum(-1, keepdim=True)
    ordered = ordered * (ordered.cumsum(-1) - ordered < decoding.top_p)
    places = ordered.cumsum(-1)
    place = torch.searchsorted(places, chance.unsqueeze(-1) * places[:, -1:], right=True)
    last = (ordered > 0).sum(-1, keepdim=True) - 1
    return torch.gather(order, -1, torch.minimum(place, last)).squeeze(-1)


def _places(mask: Tensor) -> Tensor:
    """Position ids, (rows, length): the first token that isn't padding has 0."""
    return (mask.cumsum(-1) - 1).clamp(min=0)


def pretrained(directory: Path) -> tuple[Any, Any]:
    """Model and tokenizer in a directory; nothing is fetched."""
    model = AutoModelForCausalLM.from_pretrained(directory, local_files_only=True, dtype=torch.float32)
    return model, AutoTokenizer.from_pretrained(directory, local_files_only=True)
