"""One step of a tiny model by TRL, in as many processes as it was started in; the first one tells what it saw."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from agentrewind.learn.training.backend import Decoding, Loss, Prompt
from agentrewind.learn.training.recipe import Recipe
from agentrewind.learn.training.rows import Row
from agentrewind.learn.training.with_trl import Trl

PROMPTS = [Prompt((5 + number, 6), f"prompt {number}") for number in range(5)]
ROWS = [Row((5, 6), tuple(range(7, 8 + n)), (-5.0 - n / 4,) * (n + 1), (-1.0) ** n * (1 + n / 3)) for n in range(5)]


def main(weights: str, directory: Path) -> None:
    backend = Trl(at_once=24)(Recipe("test", model=weights)).backend
    found = backend.sample(PROMPTS, Decoding(max_tokens=6))
    seen = backend.forward_backward(ROWS, Loss(), len(ROWS))
    norm = backend.optim_step(1e-2)
    directory.mkdir()
    backend.save(directory)
    told = {"sampled": [each.tokens for each in found], "loss": seen.loss, "clipped": seen.clipped, "norm": norm,
            "divergence": seen.divergence, "tokens": seen.tokens}  # fmt: skip
    directory.with_suffix(".json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
