"""The recipes of Qwen3-4B, checked without weights and without a GPU: on the meta device shapes are all there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the extra `trl`: make test-trl")

import torch
from accelerate.commands.config.config_args import load_config_from_file
from peft import get_peft_model
from transformers import Qwen3Config, Qwen3ForCausalLM

from agentrewind.learn.suites import suite
from agentrewind.learn.training.methods import training_of
from agentrewind.learn.training.objective import clipped, row_means, token_logprobs
from agentrewind.learn.training.recipe import Recipe, read_recipe
from agentrewind.learn.training.rows import Row
from agentrewind.learn.training.with_trl import Trl, _config, tensors

RECIPES = Path(__file__).parents[3] / "recipes"
LARGE = ["qwen3_4b_lora.py", "qwen3_4b_full.py"]


def config() -> Qwen3Config:
    """That of Qwen3-4B, as its makers publish it."""
    return Qwen3Config(
        vocab_size=151_936,
        hidden_size=2560,
        intermediate_size=9728,
        num_hidden_layers=36,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=40_960,
        tie_word_embeddings=True,
    )


def model(recipe: Recipe) -> Any:
    assert isinstance(recipe.engine, Trl)
    with torch.device("meta"):
        found = Qwen3ForCausalLM(config()).to(getattr(torch, recipe.engine.dtype))
        return get_peft_model(found, recipe.engine.lora) if recipe.engine.lora else found


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")  # PEFT asks by the old name
@pytest.mark.parametrize("name", LARGE)
def test_a_large_recipe_is_complete_and_its_first_pass_has_the_right_shapes(name: str, tmp_path: Path) -> None:
    recipe = read_recipe(RECIPES / name)
    assert training_of(recipe.method).trials(recipe.attempts) == 8
    assert suite(recipe.environment, recipe.tasks, "train").worlds
    engine = recipe.engine
    assert isinstance(engine, Trl)
    assert engine.vllm
    settings = _config(recipe, engine, str(tmp_path))
    assert (settings.loss_type, settings.beta, settings.epsilon) == ("grpo", 0.0, recipe.clip)
    assert settings.use_vllm
    assert settings.vllm_mode == "colocate"
    found = model(recipe)
    weights = sum(each.numel() for each in found.parameters())
    trained = [each for each in found.parameters() if each.requires_grad]
    share = sum(each.numel() for each in trained) / weights
    assert 4.0e9 < weights < 4.2e9
    assert share == 1.0 if engine.lora is None else 0.01 < share < 0.03
    batch = tensors([Row((1,) * 30, (2,) * 5, (-1.0,) * 5, 1.0), Row((1,), (2,), (-1.0,), -2.0)], 0, "meta")
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    width = ids.shape[1]
    seen = torch.zeros(2, 1, width, width, dtype=found.dtype, device="meta")  # a mask that need not be worked out
    logits = found(input_ids=ids, attention_mask=seen, use_cache=False, logits_to_keep=6).logits[:, :-1]
    assert logits.shape == (2, 5, config().vocab_size)
    losses = clipped(
        token_logprobs(logits, batch["completion_ids"]), batch["old_per_token_logps"], batch["advantages"], recipe.clip
    )
    row_means(losses, batch["completion_mask"]).mean().backward()
    assert all(each.grad is not None and each.grad.shape == each.shape for each in trained)


def test_the_configuration_of_fsdp_is_read_by_accelerate_and_wraps_the_layers_that_are_there() -> None:
    found = load_config_from_file(str(RECIPES / "fsdp2.yaml"))
    assert str(found.distributed_type).endswith("FSDP")
    assert found.fsdp_config["fsdp_version"] == 2
    wrapped = found.fsdp_config["fsdp_transformer_layer_cls_to_wrap"]
    layers = [
        each for each in model(read_recipe(RECIPES / "qwen3_4b_full.py")).modules() if type(each).__name__ == wrapped
    ]
    assert len(layers) == config().num_hidden_layers
