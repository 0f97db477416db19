"""Engines by name. Torch is imported here, when one is wanted, and nowhere before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agentrewind.core.errors import UsageError
from agentrewind.learn.training.chat import Chat
from agentrewind.learn.training.policy import Engine

if TYPE_CHECKING:
    from agentrewind.learn.training.recipe import Recipe

CONFIG = "config.json"


def opened(recipe: Recipe) -> Engine:
    """The engine of a recipe, with the weights that it begins with.

    Raises:
        UsageError: torch isn't installed, or there are no weights at the place that is named. Nothing was trained.
    """
    if recipe.engine is not None:
        return recipe.engine(recipe)
    need_torch("Nothing was trained.")
    from agentrewind.learn.training.embedded import Embedded, Settings, pretrained
    from agentrewind.learn.training.tiny import model, tokenizer

    settings = Settings(recipe.weight_decay, recipe.gradient_clip)
    if recipe.model == "tiny":
        chat = Chat(tokenizer())
        return Engine(Embedded(model(recipe.seed), chat.end, device=recipe.device, settings=settings), chat)
    weights, words = pretrained(_weights_at(Path(recipe.model)))
    chat = Chat(words)
    return Engine(Embedded(weights, chat.end, device=recipe.device, settings=settings), chat)


def trained(directory: Path, device: str = "cpu") -> Engine:
    """The weights in a directory, to be asked.

    Raises:
        UsageError: as `opened`.
    """
    need_torch("Nothing was played.")
    from agentrewind.learn.training.embedded import Embedded, pretrained

    weights, words = pretrained(_weights_at(directory))
    chat = Chat(words)
    return Engine(Embedded(weights, chat.end, device=device), chat)


def has_weights(name: str) -> bool:
    """Whether a policy's name is that of a directory with weights."""
    return (Path(name) / CONFIG).is_file()


def _weights_at(directory: Path) -> Path:
    if not (directory / CONFIG).is_file():
        raise UsageError(f"There is no {CONFIG} in {directory}, so no weights are there.")
    return directory


def need_torch(consequence: str) -> None:
    """One thread a process from here on: small models are slower with two.

    Raises:
        UsageError: torch or transformers isn't installed.
    """
    try:
        import torch
        import transformers
    except ImportError as error:
        raise UsageError(
            f"Training needs PyTorch and transformers: `pip install 'agentrewind[train]'`. {consequence}"
        ) from error
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
