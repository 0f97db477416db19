"""Any server that speaks the Tinker protocol as the engine: training on many machines, on somebody else's code.

Weights, optimiser and sampler are the server's. Its loss `ppo` is the clipped surrogate summed over tokens, each with
an advantage of its own; so a token's advantage is that of its row, over the row's length and over the rows of the step.
No torch is needed here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import tinker
from tinker import types
from transformers import AutoTokenizer

from agentrewind.core.codec import digest_bytes
from agentrewind.core.errors import ProviderError, UsageError
from agentrewind.learn.training.backend import Decoding, Loss, Pass, Prompt, Sampled
from agentrewind.learn.training.chat import Chat
from agentrewind.learn.training.policy import Engine
from agentrewind.learn.training.rows import Row

if TYPE_CHECKING:
    from agentrewind.learn.training.recipe import Recipe

STATE = "tinker.json"
NORMS = ("unclipped_grad_l2:mean", "grad_norm", "grad_norm:mean")
"""Names under which servers report the norm of the gradient."""


@dataclass(frozen=True, slots=True)
class Tinker:
    """Opens the engine of a recipe: `Recipe(model=NAME, engine=Tinker(...))`, the model by the server's name for it.

    The key is in `TINKER_API_KEY`, as the client of Tinker wants it.
    """

    tokenizer: str
    """A directory with the model's tokenizer."""
    base_url: str | None = None
    """None: `TINKER_BASE_URL`, else the service of its makers."""
    rank: int = 32

    def __call__(self, recipe: Recipe) -> Engine:
        """Raises: ProviderError: the server can't be used. UsageError: there is no tokenizer. Nothing was trained."""
        try:
            chat = Chat(AutoTokenizer.from_pretrained(self.tokenizer, local_files_only=True))
        except OSError as error:
            raise UsageError(f"There is no tokenizer at {self.tokenizer}: {error}. Nothing was trained.") from error
        try:
            service = tinker.ServiceClient(base_url=self.base_url)
            training = service.create_lora_training_client(recipe.model, rank=self.rank, seed=recipe.seed).result()
        except tinker.TinkerError as error:
            raise ProviderError(f"The Tinker server can't be used: {error}. Nothing was trained.") from error
        return Engine(WithTinker(service, training, chat.end, recipe), chat)


class WithTinker:
    """Keeps `learn.training.backend.Backend`; all numbers are the server's."""

    def __init__(self, service: tinker.ServiceClient, training: Any, end: int, recipe: Recipe) -> None:
        self._service, self._training, self._end = service, training, end
        self._decay, self._clip_gradient = recipe.weight_decay, recipe.gradient_clip
        self.sync()

    def sample(self, prompts: Sequence[Prompt], decoding: Decoding) -> list[Sampled]:
        """Raises: ProviderError."""
        asked = [
            self._sampler.sample(types.ModelInput.from_ints(list(prompt.tokens)), 1, self._params(prompt, decoding))
            for prompt in prompts
        ]
        return [_sampled(_result(each).sequences[0]) for each in asked]

    def forward_backward(self, rows: Sequence[Row], loss: Loss, of: int) -> Pass:
        """Raises: ProviderError: no step may be made of what has gathered."""
        imitates = loss.kind == "imitation"
        data = [_imitated(row, of) if imitates else _credited(row, of) for row in rows]
        limits = None if imitates else {"clip_low_threshold": 1 - loss.clip, "clip_high_threshold": 1 + loss.clip}
        done = _result(
            self._training.forward_backward(data, "cross_entropy" if imitates else "ppo", loss_fn_config=limits)
        )
        seen = [
            _seen(row, each["logprobs"].tolist()[-len(row.output) :], loss)
            for row, each in zip(rows, done.loss_fn_outputs, strict=True)
        ]
        written = sum(len(row.output) for row in rows) or 1
        tokens = sum(len(row.prompt) + len(row.output) for row in rows)
        worth, divergence, outside = (sum(part) for part in zip(*seen, strict=True))
        return Pass(worth / of, divergence / of, outside / written, tokens)

    def optim_step(self, rate: float) -> float:
        """As in the protocol, where the server reports a norm; else 1 is returned, and nothing is known.

        Raises: ProviderError.
        """
        params = types.AdamParams(
            learning_rate=rate,
            beta1=0.9,
            beta2=0.999,
            eps=1e-8,
            weight_decay=self._decay,
            grad_clip_norm=self._clip_gradient,
        )
        metrics = _result(self._training.optim_step(params)).metrics or {}
        return next((float(metrics[name]) for name in NORMS if name in metrics), 1.0)

    def sync(self) -> None:
        """Raises: ProviderError."""
        self._sampler = _result(self._training.save_weights_and_get_sampling_client())

    def save(self, directory: Path) -> None:
        """The weights stay on the server: what is written is their name. Raises: ProviderError."""
        saved = _result(self._training.save_state(f"agentrewind-{uuid4().hex}"))
        (directory / STATE).write_text(json.dumps({"path": saved.path}), encoding="utf-8")

    def load(self, directory: Path) -> None:
        """Raises: ProviderError: the server hasn't what was saved."""
        path = json.loads((directory / STATE).read_text(encoding="utf-8"))["path"]
        self._training = _result(self._service.create_training_client_from_state_with_optimizer(path))
        self.sync()

    def _params(self, prompt: Prompt, decoding: Decoding) -> types.SamplingParams:
        return types.SamplingParams(
            max_tokens=decoding.max_tokens,
            seed=int(digest_bytes(prompt.seed.encode()).rpartition(":")[2][:7], 16),
            stop=[self._end],
            temperature=decoding.temperature,
            top_k=decoding.top_k or -1,
            top_p=decoding.top_p,
        )


def _credited(row: Row, of: int) -> types.Datum:
    worth = row.advantage / (of * len(row.output))
    behaviour = [0.0] * (len(row.prompt) - 1) + list(row.behaviour)
    return _datum(row, logprobs=behaviour, advantages=_on_output(row, worth))


def _imitated(row: Row, of: int) -> types.Datum:
    return _datum(row, weights=_on_output(row, 1 / (of * len(row.output))))


def _on_output(row: Row, value: float) -> list[float]:
    """At each place the value for the token that follows it: 0 inside of the prompt."""
    return [0.0] * (len(row.prompt) - 1) + [value] * len(row.output)


def _datum(row: Row, **inputs: list[float]) -> types.Datum:
    tokens = [*row.prompt, *row.output]
    shaped = {
        name: types.TensorData(data=values, dtype="float32", shape=[len(values)]) for name, values in inputs.items()
    }
    target = types.TensorData(data=tokens[1:], dtype="int64", shape=[len(tokens) - 1])
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1]), loss_fn_inputs={"target_tokens": target, **shaped}
    )


def _sampled(sequence: Any) -> Sampled:
    return Sampled(tuple(map(int, sequence.tokens)), tuple(map(float, sequence.logprobs)))


def _seen(row: Row, logprobs: Sequence[float], loss: Loss) -> tuple[float, float, int]:
    """Of a row: the mean loss and the mean divergence of its tokens, and how many are outside of the clip range."""
    count = len(row.output)
    if loss.kind == "imitation":
        return -math.fsum(logprobs) / count, 0.0, 0
    changes = [new - old for new, old in zip(logprobs, row.behaviour, strict=True)]
    ratios = [math.exp(change) for change in changes]
    worth = [
        min(ratio * row.advantage, min(max(ratio, 1 - loss.clip), 1 + loss.clip) * row.advantage) for ratio in ratios
    ]
    divergence = [ratio - 1 - change for ratio, change in zip(ratios, changes, strict=True)]
    outside = sum(abs(ratio - 1) > loss.clip for ratio in ratios)
    return -math.fsum(worth) / count, math.fsum(divergence) / count, outside


def _result(future: Any) -> Any:
    try:
        return future.result()
    except tinker.TinkerError as error:
        raise ProviderError(f"The Tinker server refused or failed: {error}") from error
