"""Messages to tokens and back, by the tokenizer and the chat template of a model: one path for all engines."""

from __future__ import annotations

from typing import Any, cast

from agentrewind.learn.training.rows import Tokens
from agentrewind.learn.trial import Context


class Chat:
    """Wraps a tokenizer of transformers."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.end = int(tokenizer.eos_token_id)
        """Ends an answer."""

    def prompt(self, context: Context) -> Tokens:
        """The tokens after which the model answers; a template that knows of thinking is told to do without."""
        text = self.tokenizer.apply_chat_template(
            list(context), tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
        return self._tokens(text)

    def answer(self, text: str) -> Tokens:
        """The tokens of an answer that was not sampled, such as a demonstration's."""
        return (*self._tokens(text), self.end)

    def text(self, tokens: Tokens) -> str:
        """What was answered, without the end token."""
        return cast("str", self.tokenizer.decode(list(tokens), skip_special_tokens=True))

    def _tokens(self, text: str) -> Tokens:
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])
