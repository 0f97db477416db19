"""Qwen3-4B on the GPUs of one machine: all weights by TRL under FSDP2, sampled with vLLM in the same processes.

    pip install 'agentrewind[trl]' vllm
    export QWEN3_4B=/models/Qwen3-4B
    accelerate launch --config_file recipes/fsdp2.yaml -m agentrewind train recipes/qwen3_4b_full.py

Checked without a GPU up to its first forward pass (tests/lanes/trl); never run in full by us.
"""

from __future__ import annotations

import os

from agentrewind.learn.training.backend import Decoding
from agentrewind.learn.training.recipe import Evaluation, Recipe
from agentrewind.learn.training.with_trl import Trl

recipe = Recipe(
    name="qwen3-4b-full",
    environment="minesweeper:6:3",
    model=os.environ.get("QWEN3_4B", "Qwen/Qwen3-4B"),
    engine=Trl(
        vllm=True,
        dtype="bfloat16",
        more={"vllm_gpu_memory_utilization": 0.3, "vllm_max_model_length": 8192},
    ),
    style="full",
    updates=100,
    tasks=16,
    attempts=24,  # eight trials of up to three
    rows=64,
    rate=1e-6,
    decoding=Decoding(max_tokens=512),
    evaluation=Evaluation(instances=128),
)
