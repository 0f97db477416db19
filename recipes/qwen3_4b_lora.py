"""Qwen3-4B on one GPU: LoRA by TRL, sampled with vLLM in the same process.

    pip install 'agentrewind[trl]' vllm
    QWEN3_4B=/models/Qwen3-4B agentrewind train recipes/qwen3_4b_lora.py

Checked without a GPU up to its first forward pass (tests/lanes/trl); never run in full by us.
"""

from __future__ import annotations

import os

from peft import LoraConfig

from agentrewind.learn.training.backend import Decoding
from agentrewind.learn.training.recipe import Evaluation, Recipe
from agentrewind.learn.training.with_trl import Trl

recipe = Recipe(
    name="qwen3-4b-lora",
    environment="minesweeper:6:3",
    model=os.environ.get("QWEN3_4B", "Qwen/Qwen3-4B"),
    engine=Trl(
        lora=LoraConfig(r=32, lora_alpha=64, target_modules="all-linear", task_type="CAUSAL_LM"),
        vllm=True,
        dtype="bfloat16",
        at_once=32_768,
        more={"activation_checkpointing": True, "vllm_gpu_memory_utilization": 0.4, "vllm_max_model_length": 8192},
    ),
    style="full",
    updates=100,
    tasks=16,
    attempts=24,  # eight trials of up to three
    rows=64,
    rate=1e-5,
    decoding=Decoding(max_tokens=512),
    evaluation=Evaluation(instances=128),
)
