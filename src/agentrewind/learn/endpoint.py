"""A model behind any endpoint that speaks OpenAI Chat Completions, as a policy of many trials at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx

from agentrewind.core.codec import Json
from agentrewind.core.errors import ProviderError
from agentrewind.learn.rollout import Request
from agentrewind.learn.trial import Output

TRIES = 4
AGAIN = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))
"""Statuses after which the same request is sent again, a little later each time."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """The evaluation's settings (retrospective.md, section 6)."""

    temperature: float = 0.7
    top_p: float = 0.8
    max_tokens: int = 2048
    timeout_s: float = 600.0
    extra: dict[str, Json] = field(default_factory=dict)
    """More fields of the request, such as `top_k` or `chat_template_kwargs` where the server knows them."""


class Endpoint:
    """Answers batches, `together` requests at a time. Each trial's sampling seed is one of its own."""

    def __init__(
        self, base_url: str, model: str, key: str, *, seed: int, sampling: Sampling, together: int = 8
    ) -> None:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._client = httpx.Client(base_url=base_url.rstrip("/") + "/", headers=headers, timeout=sampling.timeout_s)
        self._model = model
        self._seed = seed
        self._sampling = sampling
        self._pool = ThreadPoolExecutor(together)

    def __call__(self, asked: Sequence[tuple[int, Request]]) -> list[Output]:
        return list(self._pool.map(lambda item: self._one(*item), asked))

    def close(self) -> None:
        self._pool.shutdown()
        self._client.close()

    def _one(self, trial: int, request: Request) -> Output:
        sampling = self._sampling
        body = {
            "model": self._model,
            "messages": list(request.context),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "seed": (self._seed * 1_000_003 + trial * 1_009 + request.number) % 2**31,
            **sampling.extra,
        }
        answer = self._sent(body)
        try:
            return Output(str(answer["choices"][0]["message"]["content"] or ""))
        except (LookupError, TypeError) as error:
            raise ProviderError(f"{self._client.base_url} gave an answer without a message: {answer!r:.200}") from error

    def _sent(self, body: Json) -> Json:
        for attempt in range(1, TRIES + 1):
            try:
                reply = self._client.post("chat/completions", json=body)
                if reply.status_code not in AGAIN:
                    break
                why = f"HTTP {reply.status_code}"
            except httpx.TransportError as error:
                why = str(error) or type(error).__name__
            if attempt == TRIES:
                raise ProviderError(f"{self._client.base_url} could not be used, {TRIES} times: {why}")
            time.sleep(0.5 * 2**attempt)
        if reply.is_error:
            raise ProviderError(f"{self._client.base_url} said HTTP {reply.status_code}: {reply.text[:300]}")
        try:
            return reply.json()
        except ValueError as error:
            raise ProviderError(f"{self._client.base_url} gave an answer that is no JSON.") from error
