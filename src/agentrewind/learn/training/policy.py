"""A model that is here as a policy of many trials at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentrewind.learn.rollout import Request
from agentrewind.learn.training.backend import Backend, Decoding, Prompt
from agentrewind.learn.training.chat import Chat
from agentrewind.learn.trial import Output


@dataclass(frozen=True, slots=True)
class Engine:
    """A backend, and the way from messages to its tokens."""

    backend: Backend
    chat: Chat


@dataclass(frozen=True, slots=True)
class Sampler:
    """Answers batches of requests (`learn.play.Batch`); each call of each trial draws from a seed of its own."""

    engine: Engine
    decoding: Decoding
    seed: str

    def __call__(self, asked: Sequence[tuple[int, Request]]) -> list[Output]:
        chat = self.engine.chat
        prompts = [
            Prompt(chat.prompt(request.context), f"{self.seed}/{trial}/{request.number}") for trial, request in asked
        ]
        found = self.engine.backend.sample(prompts, self.decoding)
        return [
            Output(chat.text(each.tokens), each.tokens, each.logprobs, prompt.tokens)
            for prompt, each in zip(prompts, found, strict=True)
        ]
