"""A model small enough to be trained on a laptop: an ordinary Qwen3 of some 0.17 million parameters, and its words."""

from __future__ import annotations

from typing import Any

import torch
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from agentrewind.learn.training.words import END, SPLIT, TEMPLATE, vocabulary

UNKNOWN = "<|unknown|>"


def tokenizer() -> Any:
    """One word of `words.vocabulary` is one token."""
    words = {word: number for number, word in enumerate(vocabulary())}
    made = Tokenizer(WordLevel(words, unk_token=UNKNOWN))
    made.pre_tokenizer = Split(Regex(SPLIT), behavior="removed", invert=True)
    found = PreTrainedTokenizerFast(tokenizer_object=made, eos_token=END, pad_token=END, unk_token=UNKNOWN)
    found.chat_template = TEMPLATE
    return found


def model(seed: int, *, hidden: int = 64, layers: int = 4) -> Any:
    """Fresh weights of a seed."""
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(vocabulary()),
            hidden_size=hidden,
            intermediate_size=2 * hidden,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=hidden // 4,
            max_position_embeddings=2048,
            tie_word_embeddings=True,
            attention_dropout=0.0,
            bos_token_id=None,
            eos_token_id=0,
            pad_token_id=0,
        )
    )
