"""Fifty conversations at once, in one program: each must get the answers that are its own."""

from __future__ import annotations

import sys
import threading

from openai import OpenAI

SHELL = {"type": "function", "function": {"name": "shell", "description": "x", "parameters": {"type": "object"}}}


def converse(client: OpenAI, who: int, turns: int, wrong: list[str]) -> None:
    messages: list[dict] = [{"role": "user", "content": f"I am number {who}."}]
    for turn in range(turns):
        stream = (who + turn) % 2 == 0
        answer = client.chat.completions.create(model="any", messages=messages, tools=[SHELL], stream=stream)
        text = (
            "".join(part.choices[0].delta.content or "" for part in answer)
            if stream
            else answer.choices[0].message.content
        )
        if text != f"number {who}, turn {turn}":
            wrong.append(f"{who}/{turn}: {text}")
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": f"turn {turn + 1}"}]


def main() -> None:
    people, turns = int(sys.argv[1]), int(sys.argv[2])
    wrong: list[str] = []
    with OpenAI(max_retries=0) as client:
        threads = [threading.Thread(target=converse, args=(client, who, turns, wrong)) for who in range(people)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print(len(wrong), "wrong", *wrong[:3])
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
