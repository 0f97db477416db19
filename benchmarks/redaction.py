"""How fast secrets are taken out of text: Python sources of the standard library, and base64 of random bytes."""

from __future__ import annotations

import base64
import random
import sysconfig
import time
from pathlib import Path

from agentrewind.core.redact import Redactor

ROUNDS = 3
MOST = 8 << 20


def sources() -> list[str]:
    texts: list[str] = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        texts.append(path.read_text("utf-8", "replace"))
        if sum(map(len, texts)) > MOST:
            break
    return texts


def speed(redact: Redactor, texts: list[str]) -> tuple[float, int]:
    """Megabytes a second of processor time, the best of some rounds, and how many texts were changed."""
    size, best, changed = sum(map(len, texts)), 0.0, 0
    for _ in range(ROUNDS):
        begun = time.process_time()
        changed = sum(redact.text(text) != text for text in texts)
        best = max(best, size / 1e6 / (time.process_time() - begun))
    return best, changed


def main() -> None:
    chance = random.Random(1)
    known = [f"known-value-{number}-{chance.getrandbits(64):x}" for number in range(10)]
    cases = {"sources": sources(), "base64": [base64.b64encode(chance.randbytes(1 << 20)).decode()]}
    for name, texts in cases.items():
        for count in (0, 2, 10):
            rate, changed = speed(Redactor(known[:count]), texts)
            size = sum(map(len, texts)) / 1e6
            print(f"{name} ({size:.1f} MB), {count} known values: {rate:.0f} MB/s, {changed} of {len(texts)} changed")


if __name__ == "__main__":
    main()
