"""The loss of rows, in torch: the clipped surrogate of GRPO and PPO, and imitation (paper "ReTRAIL", section 4)."""

from __future__ import annotations

import torch
from torch import Tensor


def token_logprobs(logits: Tensor, tokens: Tensor) -> Tensor:
    """The log-probability of each token.

    Args:
        logits: (rows, length, vocabulary), of any floating type; read as float32.
        tokens: (rows, length).

    Returns:
        (rows, length), float32.
    """
    return torch.gather(torch.log_softmax(logits.float(), dim=-1), -1, tokens.unsqueeze(-1)).squeeze(-1)


def clipped(logprobs: Tensor, behaviour: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """The loss of each token: `-min(r A, clip(r) A)`.

    Args:
        logprobs: (rows, length), of the policy that is trained.
        behaviour: (rows, length), of the one that sampled.
        advantages: (rows,).
        clip: how far the ratio may lie from 1.
    """
    ratio = torch.exp(logprobs - behaviour)
    worth = advantages.unsqueeze(-1)
    return -torch.minimum(ratio * worth, ratio.clamp(1 - clip, 1 + clip) * worth)


def row_means(values: Tensor, mask: Tensor) -> Tensor:
    """The mean of each row over the tokens in `mask`, (rows, length) to (rows,); 0 for a row without any."""
    return (values * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)
