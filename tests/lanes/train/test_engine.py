"""The embedded engine keeps the contract of `Backend`, and the loss is the one that is written down."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra `train`: make test-train")

from agentrewind.learn.training.backend import Decoding, Loss, Prompt  # noqa: E402
from agentrewind.learn.training.chat import Chat  # noqa: E402
from agentrewind.learn.training.embedded import Embedded, Settings, drawn, pretrained  # noqa: E402
from agentrewind.learn.training.engines import need_torch  # noqa: E402
from agentrewind.learn.training.objective import clipped, row_means, token_logprobs  # noqa: E402
from agentrewind.learn.training.rows import Row  # noqa: E402
from agentrewind.learn.training.tiny import model, tokenizer  # noqa: E402

need_torch("")
CHAT = Chat(tokenizer())
TALKS = (
    [{"role": "system", "content": "minesweeper 5 mines 3"}, {"role": "user", "content": "C_0 calls 60\n? ? 1 . ."}],
    [{"role": "system", "content": "sokoban"}, {"role": "user", "content": "C_1 # # _ X"}],
    [{"role": "user", "content": "note C_2 not (2,3); next (4,4)"}, {"role": "user", "content": "C_2 ? ? ? ? 1 2 1"}],
)
PROMPTS = [CHAT.prompt(talk) for talk in TALKS]


def engine(**settings: Any) -> Embedded:
    return Embedded(model(0, hidden=32, layers=2), CHAT.end, settings=Settings(**settings))


def rows(count: int = 8) -> list[Row]:
    chance = torch.Generator().manual_seed(1)
    found = []
    for number in range(count):
        length = 1 + number % 4
        output = torch.randint(0, 300, (length,), generator=chance).tolist()
        behaviour = (-6.0 + torch.randn(length, generator=chance)).tolist()
        found.append(Row(PROMPTS[number % 3], tuple(output), tuple(behaviour), float(number - 3.5)))
    return found


def gradients(found: Embedded) -> list[Any]:
    return [weights.grad.clone() for weights in found.model.parameters() if weights.grad is not None]


def test_a_word_is_a_token_and_a_tag_survives() -> None:
    for text in ("<action>(2,3)</action>", "<remark>not (1,2); next up, left</remark><target>C_4</target>"):
        tokens = CHAT.answer(text)
        assert CHAT.tokenizer.unk_token_id not in tokens
        assert tokens[-1] == CHAT.end
        assert CHAT.text(tokens).replace(" ", "") == text.replace(" ", "")
    assert len(CHAT.answer("<action>(2,3)</action>")) == 4


def test_the_log_probabilities_of_sampling_are_those_of_reading_it_all_again() -> None:
    found = engine()
    asked = [Prompt(tokens, str(number)) for number, tokens in enumerate(PROMPTS)]
    for prompt, each in zip(asked, found.sample(asked, Decoding(max_tokens=12)), strict=True):
        whole = torch.tensor([[*prompt.tokens, *each.tokens]])
        logits = found.model(input_ids=whole).logits[:, len(prompt.tokens) - 1 : -1]
        again = token_logprobs(logits, whole[:, len(prompt.tokens) :])[0].tolist()
        assert list(each.logprobs) == pytest.approx(again, abs=1e-4)
        assert len(each.tokens) == 12 or each.tokens[-1] == CHAT.end
        assert CHAT.end not in each.tokens[:-1]


def test_what_is_drawn_depends_on_its_seed_and_not_on_what_stands_beside_it() -> None:
    found, decoding = engine(together=4), Decoding(max_tokens=10)
    asked = [Prompt(PROMPTS[number % 3], str(number)) for number in range(9)]
    together = found.sample(asked, decoding)
    alone = [found.sample([prompt], decoding)[0] for prompt in asked]
    assert [each.tokens for each in together] == [each.tokens for each in alone]
    assert len({each.tokens for each in together}) > 3
    assert found.sample(list(reversed(asked)), decoding)[0].tokens == together[-1].tokens


def test_tokens_are_drawn_where_their_share_lies() -> None:
    logits = torch.log(torch.tensor([[0.1, 0.6, 0.3]])).repeat(5, 1)
    chance = torch.tensor([0.0, 0.59, 0.61, 0.89, 0.91], dtype=torch.float64)
    assert drawn(logits, Decoding(), chance).tolist() == [1, 1, 2, 2, 0]
    assert drawn(logits, Decoding(temperature=0), chance).tolist() == [1] * 5
    assert drawn(logits, Decoding(top_k=1), chance).tolist() == [1] * 5
    assert drawn(logits, Decoding(top_p=0.5), chance).tolist() == [1] * 5
    assert drawn(logits, Decoding(top_p=0.8), chance).tolist() == [1, 1, 1, 2, 2]
    assert drawn(logits, Decoding(top_k=2), chance).tolist() == [1, 1, 1, 2, 2]
    assert drawn(logits, Decoding(), torch.full((5,), 1.0, dtype=torch.float64)).tolist() == [0] * 5


def test_the_clipped_surrogate_is_the_written_one() -> None:
    new, old = torch.tensor([[-1.0, -2.0, -0.5]]), torch.tensor([[-1.3, -1.5, -0.5]])
    for advantage in (2.0, -0.7):
        losses = clipped(new, old, torch.tensor([advantage]), 0.2)[0].tolist()
        for loss, log_ratio in zip(losses, (0.3, -0.5, 0.0), strict=True):
            ratio = math.exp(log_ratio)
            held = min(max(ratio, 0.8), 1.2)
            assert loss == pytest.approx(-min(ratio * advantage, held * advantage), rel=1e-5)
    means = row_means(torch.tensor([[1.0, 5.0], [7.0, 7.0]]), torch.tensor([[1.0, 1.0], [0.0, 0.0]]))
    assert means.tolist() == [3.0, 0.0]


@pytest.mark.parametrize("kind", ["clipped", "imitation"])
def test_loss_and_gradient_are_those_of_one_row_after_another_written_out(kind: Any) -> None:
    found, loss = engine(), Loss(kind)
    seen = found.forward_backward(rows(), loss, 8)
    expected = 0.0
    written = engine()
    for row in rows():
        whole = torch.tensor([[*row.prompt, *row.output]])
        logprobs = torch.log_softmax(written.model(input_ids=whole).logits[0].float(), -1)
        total = torch.tensor(0.0)
        for place, token in enumerate(row.output):
            logprob = logprobs[len(row.prompt) + place - 1, token]
            if kind == "imitation":
                total = total - logprob
            else:
                ratio = torch.exp(logprob - row.behaviour[place])
                total = total - torch.minimum(ratio * row.advantage, ratio.clamp(0.8, 1.2) * row.advantage)
        (total / len(row.output) / 8).backward()
        expected += float(total.detach()) / len(row.output) / 8
    assert seen.loss == pytest.approx(expected, rel=1e-5)
    for one, other in zip(gradients(found), gradients(written), strict=True):
        assert torch.allclose(one, other, atol=1e-6, rtol=1e-4)


def test_one_pass_of_eight_rows_equals_eight_of_one() -> None:
    whole, single, small = engine(), engine(), engine(at_once=1)
    whole.forward_backward(rows(), Loss(), 8)
    for row in rows():
        single.forward_backward([row], Loss(), 8)
    small.forward_backward(rows(), Loss(), 8)
    for one, other, third in zip(gradients(whole), gradients(single), gradients(small), strict=True):
        assert torch.allclose(one, other, atol=1e-6)
        assert torch.allclose(one, third, atol=1e-6)


def test_a_prompt_gets_no_gradient_of_its_own() -> None:
    """The same output after a longer padded prompt: rows of other lengths beside it change nothing."""
    one, other = engine(), engine()
    row = rows()[2]
    one.forward_backward([row], Loss(), 1)
    other.forward_backward([row, Row(PROMPTS[0] * 3, (5,), (-1.0,), 0.0)], Loss(), 1)
    for mine, theirs in zip(gradients(one), gradients(other), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-6)


def test_weights_and_optimiser_come_back_exactly(tmp_path: Path) -> None:
    found = engine()
    found.forward_backward(rows(), Loss(), 8)
    found.optim_step(1e-3)
    found.save(tmp_path)
    again = Embedded(model(5, hidden=32, layers=2), CHAT.end)
    again.load(tmp_path)
    for each in (found, again):
        each.forward_backward(rows(), Loss(), 8)
        each.optim_step(1e-3)
    for one, other in zip(found.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)
    CHAT.tokenizer.save_pretrained(tmp_path)
    weights, words = pretrained(tmp_path)
    assert Chat(words).prompt(TALKS[0]) == PROMPTS[0]
    assert sum(item.numel() for item in weights.parameters()) == sum(item.numel() for item in found.model.parameters())


def test_a_gradient_that_is_not_finite_changes_nothing() -> None:
    found = engine()
    before = [weights.clone() for weights in found.model.parameters()]
    found.forward_backward([Row(PROMPTS[0], (3,), (-1.0,), math.inf)], Loss(), 1)
    assert not math.isfinite(found.optim_step(1e-3))
    for one, other in zip(found.model.parameters(), before, strict=True):
        assert torch.equal(one, other)
    found.forward_backward(rows(), Loss(), 8)
    assert math.isfinite(found.optim_step(1e-3))


def test_the_tiny_model_has_some_hundred_and_seventy_thousand_parameters() -> None:
    assert 150_000 < sum(item.numel() for item in model(0).parameters()) < 200_000
