"""The real client of Tinker against a server on loopback that trains a tiny model for real."""

from __future__ import annotations

import copy
import importlib.util
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tinker", reason="needs the extra `tinker`: make test-tinker")

import torch

from agentrewind.core.errors import ProviderError, UsageError
from agentrewind.learn.rules import Rules
from agentrewind.learn.training import tiny
from agentrewind.learn.training.backend import Decoding, Loss, Prompt
from agentrewind.learn.training.embedded import Embedded
from agentrewind.learn.training.policy import Engine as Opened
from agentrewind.learn.training.recipe import Recipe
from agentrewind.learn.training.rows import Row
from agentrewind.learn.training.with_tinker import STATE, Tinker

spec = importlib.util.spec_from_file_location("tinker_server", Path(__file__).with_name("server.py"))
assert spec is not None
assert spec.loader is not None
server = importlib.util.module_from_spec(spec)
sys.modules["tinker_server"] = server
spec.loader.exec_module(server)

RECIPE = Recipe("test", model="tiny-model", rate=1e-3)


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TINKER_API_KEY", "tml-not-a-key")
    monkeypatch.setenv("TINKER_TELEMETRY", "0")
    place = tmp_path / "words"
    tiny.tokenizer().save_pretrained(place)
    return str(place)


@pytest.fixture
def engine() -> Any:
    return server.Engine(tiny.model(3), 0)


@pytest.fixture
def opened(engine: Any, words: str) -> Iterator[Opened]:
    with server.serving(engine) as url:
        found = Tinker(words, url)(RECIPE)
        yield found
        found.backend._service.close("success").result()


def some_rows(model: Any, count: int, off: float = 0.6) -> list[Row]:
    luck, rows = random.Random(0), []
    for _ in range(count):
        prompt, output = ([luck.randrange(5, 60) for _ in range(luck.randint(1, 7))] for _ in range(2))
        with torch.no_grad():
            logits = torch.log_softmax(model(input_ids=torch.tensor([prompt + output])).logits[0].float(), -1)
        now = [float(logits[len(prompt) - 1 + place, token]) for place, token in enumerate(output)]
        behaviour = tuple(each + luck.uniform(-off, off) for each in now)
        rows.append(Row(tuple(prompt), tuple(output), behaviour, luck.choice([-1, 1]) * luck.uniform(0.1, 3)))
    return rows


@pytest.mark.parametrize("loss", [Loss(), Loss(clip=0.4), Loss("imitation")])
def test_a_step_on_the_server_is_the_step_of_the_embedded_engine(opened: Opened, engine: Any, loss: Loss) -> None:
    ours = Embedded(copy.deepcopy(engine.model), 0)
    rows = some_rows(ours.model, 7)
    seen, told = (each.forward_backward(rows, loss, 9) for each in (ours, opened.backend))
    assert told.loss == pytest.approx(seen.loss, abs=1e-6)
    assert told.divergence == pytest.approx(seen.divergence, abs=1e-6)
    assert told.clipped == pytest.approx(seen.clipped)
    for (name, one), two in zip(ours.model.named_parameters(), engine.model.parameters(), strict=True):
        torch.testing.assert_close(two.grad, one.grad, rtol=0, atol=1e-6, msg=name)
    assert opened.backend.optim_step(1e-3) == pytest.approx(ours.optim_step(1e-3), rel=1e-5)
    asked = dict(engine.asked)["optim_step"]["adam_params"]
    assert asked["learning_rate"] == 1e-3
    assert (asked["weight_decay"], asked["grad_clip_norm"]) == (RECIPE.weight_decay, RECIPE.gradient_clip)


def test_it_samples_from_the_weights_of_the_last_sync(opened: Opened, engine: Any) -> None:
    prompts = [Prompt((5, 6, 7), "a"), Prompt((8,), "b"), Prompt((5, 6, 7), "a")]
    backend, decoding = opened.backend, Decoding(max_tokens=5)
    first = backend.sample(prompts, decoding)
    assert first[0] == first[2] != first[1]
    assert all(len(each.tokens) == len(each.logprobs) and 1 <= len(each.tokens) <= 5 for each in first)
    backend.forward_backward(some_rows(engine.model, 4), Loss(), 4)
    backend.optim_step(0.1)
    assert backend.sample(prompts, decoding) == first, "no sync yet"
    backend.sync()
    assert backend.sample(prompts, decoding) != first
    now = backend.sample(prompts, decoding)[1]
    with torch.no_grad():
        logits = engine.model(input_ids=torch.tensor([[8, *now.tokens]])).logits[0].float()
    expected = torch.log_softmax(logits, -1)[range(len(now.tokens)), list(now.tokens)]
    assert now.logprobs == pytest.approx(expected.tolist(), abs=1e-5)


def test_what_was_saved_comes_back_with_its_optimiser(opened: Opened, engine: Any, tmp_path: Path) -> None:
    backend, rows = opened.backend, some_rows(engine.model, 4)

    def step() -> dict[str, Any]:
        backend.forward_backward(rows, Loss(), 4)
        backend.optim_step(1e-2)
        return copy.deepcopy(engine.model.state_dict())

    step()
    kept = tmp_path / "kept"
    kept.mkdir()
    backend.save(kept)
    once = step()
    step()
    backend.load(kept)
    again = step()
    for name, each in once.items():
        torch.testing.assert_close(again[name], each, rtol=0, atol=0)
    assert [item.name for item in kept.iterdir()] == [STATE]


def test_a_whole_update_trains_the_server(opened: Opened, engine: Any) -> None:
    from agentrewind.learn.training.updates import updated

    before = copy.deepcopy(engine.model.state_dict())
    small = Decoding(max_tokens=6)
    recipe = Recipe("test", tasks=2, pool=2, method="grpo", attempts=2, decoding=small, rules=Rules(calls=3))
    seen = updated(opened, recipe, 0)
    assert seen.calls == 12
    verbs = [verb for verb, _ in engine.asked]
    assert verbs.count("asample") == seen.calls
    moved = any(not torch.equal(each, before[name]) for name, each in engine.model.state_dict().items())
    assert moved == bool(seen.rows) == ("optim_step" in verbs)


def test_what_the_server_refuses_is_said(engine: Any, words: str) -> None:
    engine.refuses = "optim_step"
    with server.serving(engine) as url:
        backend = Tinker(words, url)(RECIPE).backend
        with pytest.raises(ProviderError, match="refused or failed"):
            backend.optim_step(1e-3)
        backend._service.close("errored").result()


def test_without_a_tokenizer_nothing_begins(words: str) -> None:
    with pytest.raises(UsageError, match="no tokenizer"):
        Tinker(words + "-not-there", "http://127.0.0.1:9")(RECIPE)
