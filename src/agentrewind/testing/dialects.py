"""The contract of a dialect: subclass `DialectContract`, name the dialect and the samples, and run it with pytest.

::

    class TestMine(DialectContract):
        path = "/v1/chat/completions"

        def dialect(self):
            return MyDialect()

        def request(self, *, stream=False): ...
        def answer(self, text, calls): ...
        def error(self, *, stream): ...
        def same(self, message): ...
        def other(self, message): ...
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytest

from agentrewind.core.codec import Json
from agentrewind.core.edits import Message
from agentrewind.core.errors import ProviderError
from agentrewind.core.tools import NAMES, TOOLS

Call = tuple[str, str, Json]
"""The id, the name and the arguments of a tool call; arguments that are text are sent as they are."""

TEXT = 'A line, "quoted" \\ and\nanother: é 漢 \N{GRINNING FACE} \u2028 data: [DONE]'
CALLS: tuple[Call, ...] = (
    ("call_1", "bash", {"command": 'echo "é"\n', "n": [1, {"x": None}]}),
    ("call_2", "bash", {}),
)
OURS: tuple[Call, ...] = tuple((f"call_{at}", spec.name, {}) for at, spec in enumerate(TOOLS, 3))
BOTH = pytest.mark.parametrize("stream", [False, True])


class DialectContract:
    """What every dialect promises."""

    path: ClassVar[str]
    """The URL path of a request in this dialect."""

    def dialect(self) -> Any:
        """The dialect under test (`agentrewind.dialects.base.Dialect`)."""
        raise NotImplementedError

    def request(self, *, stream: bool = False) -> Json:
        """A request with a model, a parameter, at least one tool of its own, and messages that end in a result."""
        raise NotImplementedError

    def continuing(self, response: Json = None) -> Json:
        """A request that goes on from what the provider keeps (of this answer); a whole one where it keeps nothing."""
        del response
        return self.request()

    def answer(self, text: str, calls: Sequence[Call]) -> Json:
        """A provider's whole response object, with usage."""
        raise NotImplementedError

    def error(self, *, stream: bool) -> bytes:
        """An answer that reports "out of memory", in the body or in the middle of a stream."""
        raise NotImplementedError

    def same(self, message: Message) -> Message:
        """The message as a harness may send it another time: volatile fields differ."""
        raise NotImplementedError

    def other(self, message: Message) -> Message:
        """A message that isn't the same one: the nearest to it that there is."""
        raise NotImplementedError

    # --- answers ------------------------------------------------------------------------------------------------------

    def _parsed(self, text: str, calls: Sequence[Call], *, stream: bool = False) -> Any:
        dialect = self.dialect()
        return dialect.parse(dialect.render(self.answer(text, calls), stream=stream), stream=stream)

    @BOTH
    @pytest.mark.parametrize(("text", "calls"), [(TEXT, ()), (TEXT, CALLS), ("", CALLS), ("", ())])
    def test_an_answer_is_read(self, text: str, calls: Sequence[Call], *, stream: bool) -> None:
        reply = self._parsed(text, calls, stream=stream)
        assert reply.text == text
        assert [(call.id, call.name, call.arguments) for call in reply.calls] == list(calls)
        assert reply.usage.input > 0
        assert reply.usage.output > 0
        assert reply.finish_reason

    @pytest.mark.parametrize("calls", [(), CALLS])
    def test_plain_and_streamed_answers_are_read_alike(self, calls: Sequence[Call]) -> None:
        plain, streamed = self._parsed(TEXT, calls), self._parsed(TEXT, calls, stream=True)
        assert plain == streamed

    @BOTH
    def test_what_is_rendered_is_parsed_to_the_same(self, *, stream: bool) -> None:
        response = self.answer(TEXT, CALLS)
        assert self._parsed(TEXT, CALLS, stream=stream).response == response

    @BOTH
    def test_arguments_that_are_not_json_are_kept_as_text(self, *, stream: bool) -> None:
        (call,) = self._parsed("", [("call_1", "bash", "{broken")], stream=stream).calls
        assert call.arguments is None
        assert call.raw_arguments == "{broken"

    @BOTH
    def test_an_error_is_an_error(self, *, stream: bool) -> None:
        with pytest.raises(ProviderError, match="out of memory"):
            self.dialect().parse(self.error(stream=stream), stream=stream)

    @BOTH
    @pytest.mark.parametrize("body", [b"", b"<html>502</html>", b"[]", b"{}", b"data: {\n\n"])
    def test_what_is_no_answer_is_an_error(self, body: bytes, *, stream: bool) -> None:
        with pytest.raises(ProviderError):
            self.dialect().parse(body, stream=stream)

    def test_a_stream_cut_off_before_its_end_is_an_error(self) -> None:
        dialect = self.dialect()
        events = dialect.render(self.answer(TEXT, CALLS), stream=True).split(b"\n\n")
        with pytest.raises(ProviderError):
            dialect.parse(b"\n\n".join(events[:1]) + b"\n\n", stream=True)

    def test_line_ends_and_comments_of_a_stream_do_not_matter(self) -> None:
        dialect = self.dialect()
        body = dialect.render(self.answer(TEXT, CALLS), stream=True)
        odd = b": keep-alive\n\n" + body.replace(b"\n\n", b"\n: keep-alive\n\n")
        assert dialect.parse(odd.replace(b"\n", b"\r\n"), stream=True) == self._parsed(TEXT, CALLS)

    # --- requests -----------------------------------------------------------------------------------------------------

    def test_its_own_requests_are_recognised(self) -> None:
        dialect = self.dialect()
        assert dialect.matches("POST", self.path)
        assert not dialect.matches("GET", self.path)
        assert not dialect.matches("POST", "/v1/embeddings")
        assert dialect.problems_with(self.request()) is None
        assert dialect.streams(self.request(stream=True))
        assert not dialect.streams(self.request())

    @pytest.mark.parametrize("body", [None, [], "x", {}, {"model": "m"}])
    def test_what_is_no_request_is_said_to_be_none(self, body: Json) -> None:
        assert self.dialect().problems_with(body)

    def test_a_request_is_taken_apart_and_put_together(self) -> None:
        dialect, body = self.dialect(), self.request()
        messages = dialect.messages(body)
        assert dialect.model(body)
        assert dialect.params(body)
        assert dialect.with_messages(body, messages) == body
        assert dialect.messages(dialect.with_messages(body, messages[:1])) == messages[:1]
        assert dialect.params(dialect.with_messages(body, messages[:1])) == dialect.params(body)

    def test_a_whole_request_continues_nothing_and_holds_what_it_is_given(self) -> None:
        dialect, body = self.dialect(), self.request()
        messages = dialect.messages(body)
        whole = dialect.as_whole(self.continuing(), messages)
        assert dialect.continues(body) is None
        assert dialect.continues(whole) is None
        assert dialect.messages(whole) == messages
        assert dialect.problems_with(whole) is None

    def test_a_request_that_continues_an_answer_names_it(self) -> None:
        dialect = self.dialect()
        reply = self._parsed(TEXT, CALLS)
        assert dialect.reply_id(reply) == dialect.continues(self.continuing(reply.response))
        assert dialect.problems_with(self.continuing()) is None

    def test_tools_are_declared_once_and_after_the_others(self) -> None:
        dialect, body = self.dialect(), self.request()
        own = dialect.tools(body)
        changed = dialect.with_tools(body, TOOLS)
        assert own
        assert dialect.tools(changed)[: len(own)] == own
        assert len(dialect.tools(changed)) == len(own) + len(TOOLS)
        assert dialect.with_tools(changed, TOOLS) == changed
        assert dialect.messages(changed) == dialect.messages(body)
        assert dialect.params(changed) == dialect.params(body)

    def test_canonical_form_tells_messages_apart_by_their_meaning_only(self) -> None:
        dialect = self.dialect()
        messages = [*dialect.messages(self.request()), *self._parsed(TEXT, CALLS).messages]
        for message in messages:
            assert dialect.canonical(self.same(message)) == dialect.canonical(message)
            assert dialect.canonical(self.other(message)) != dialect.canonical(message)

    # --- what goes back to the harness and to the provider ------------------------------------------------------------

    def test_calls_are_taken_out_and_the_rest_stays(self) -> None:
        dialect = self.dialect()
        left = dialect.without_calls(self.answer(TEXT, (*OURS, *CALLS)), NAMES)
        reply = dialect.parse(dialect.render(left, stream=False), stream=False)
        assert [(call.id, call.name) for call in reply.calls] == [call[:2] for call in CALLS]
        assert reply.text == TEXT

    @pytest.mark.parametrize("text", ["", TEXT])
    def test_an_answer_without_any_call_left_ends_as_a_text_does(self, text: str) -> None:
        dialect = self.dialect()
        left = dialect.without_calls(self.answer(text, OURS), NAMES)
        reply = dialect.parse(dialect.render(left, stream=False), stream=False)
        assert reply.calls == ()
        assert reply.text == text
        assert reply.finish_reason == self._parsed("x", ()).finish_reason
        assert dialect.problems([dialect.user("x"), *reply.messages]) == []

    def test_results_answer_each_call_in_order(self) -> None:
        dialect = self.dialect()
        said = self._parsed(TEXT, CALLS).messages
        results = dialect.results(said, {"call_2": "two", "call_1": "one"})
        assert "one" in repr(results[0])
        assert "two" in repr(results[-1])
        assert repr(results).index("one") < repr(results).index("two")
        assert dialect.problems([dialect.user("x"), *said, *results]) == []
        assert dialect.results(self._parsed(TEXT, ()).messages, {}) == []

    def test_results_that_come_in_another_order_are_known_as_such(self) -> None:
        dialect = self.dialect()
        said = self._parsed(TEXT, CALLS).messages
        results = dialect.results(said, {"call_1": "one", "call_2": "two"})
        if len(results) > 1:
            assert [dialect.answers(message) for message in results] == ["call_1", "call_2"]
        else:
            (one,) = results
            swapped = {**one, "content": one["content"][::-1]}
            assert dialect.canonical(swapped) == dialect.canonical(one)
            assert dialect.answers(one) is None
        assert [dialect.answers(message) for message in (dialect.user("x"), *said)] == [None] * (1 + len(said))

    @BOTH
    def test_a_refusal_is_an_error_that_says_why(self, *, stream: bool) -> None:
        dialect = self.dialect()
        body = json.dumps(dialect.refusal("that was ended", "code")).encode("ascii")
        with pytest.raises(ProviderError, match="that was ended"):
            dialect.parse(body, stream=stream)

    def test_a_hint_stands_at_the_end_of_the_last_result_and_nowhere_else(self) -> None:
        dialect = self.dialect()
        said = self._parsed(TEXT, CALLS).messages
        results = dialect.results(said, {"call_1": "one", "call_2": "two"})
        hinted = dialect.with_hint(results[-1], "a hint")
        assert hinted is not None
        messages = [dialect.user("x"), *said, *results[:-1], hinted]
        assert dialect.problems(messages) == []
        assert [result.text for message in messages for result in dialect.tool_results(message)] == [
            "one",
            "two\n\na hint",
        ]
        for other in (dialect.user("x"), *said):
            assert dialect.with_hint(other, "a hint") is None
            assert dialect.tool_results(other) == []

    def test_a_question_of_ours_goes_to_the_same_model_and_holds_nothing_else(self) -> None:
        dialect = self.dialect()
        asked = dialect.asking(self.request(stream=True), "a question")
        assert dialect.problems_with(asked) is None
        assert dialect.model(asked) == dialect.model(self.request())
        assert dialect.messages(asked) == [dialect.user("a question")]
        assert not dialect.streams(asked)
        assert not dialect.tools(asked)

    @pytest.mark.parametrize("role", ["system", "user"])
    def test_the_memory_may_stand_after_results(self, role: str) -> None:
        dialect = self.dialect()
        messages = dialect.messages(self.request())
        assert dialect.problems([*messages, dialect.memory("the notes", role)]) == []
        assert "the notes" in repr(dialect.memory("the notes", role))

    def test_a_list_that_was_put_together_is_one_that_a_harness_may_send(self) -> None:
        dialect, body = self.dialect(), self.request()
        together = [*dialect.messages(body), dialect.memory("the notes", "system")]
        joined = dialect.joined(together)
        assert dialect.messages(dialect.with_messages(body, together)) == joined
        assert dialect.joined(joined) == joined
        assert "the notes" in repr(joined[-1])

    def test_broken_pairs_are_seen(self) -> None:
        dialect = self.dialect()
        user, said = dialect.user("x"), self._parsed(TEXT, CALLS).messages
        results = dialect.results(said, {"call_1": "one", "call_2": "two"})
        for broken in (
            [],
            [user, *said],
            [user, *results],
            [user, *said, user, *results],
            [user, *said, *results, *results],
            [*said, *results, user, *results],
        ):
            assert dialect.problems(broken)

    def test_arguments_are_left_as_they_are(self) -> None:
        dialect, body, response = self.dialect(), self.request(), self.answer(TEXT, (*OURS, *CALLS))
        said = self._parsed(TEXT, CALLS).messages
        acts: list[Callable[[Json, Json, Json], object]] = [
            lambda body, _r, _m: dialect.with_messages(body, [dialect.user("x")]),
            lambda body, _r, _m: dialect.messages(body).append("x"),
            lambda body, _r, _m: dialect.tools(body).append("x"),
            lambda body, _r, _m: dialect.with_tools(body, TOOLS),
            lambda body, _r, _m: dialect.params(body),
            lambda _b, response, _m: dialect.render(response, stream=True),
            lambda _b, response, _m: dialect.without_calls(response, NAMES),
            lambda body, _r, said: dialect.with_messages(body, [*dialect.messages(body), dialect.user("x"), *said]),
            lambda body, _r, said: dialect.as_whole(body, said),
            lambda _b, _r, said: [dialect.canonical(message) for message in said],
            lambda _b, _r, said: dialect.problems(said),
            lambda _b, _r, said: dialect.results(said, {"call_1": "", "call_2": ""}),
            lambda body, _r, _m: dialect.with_hint(dialect.messages(body)[-1], "x"),
            lambda body, _r, _m: dialect.asking(body, "x"),
        ]
        for act in acts:
            given = copy.deepcopy((body, response, said))
            act(body, response, said)
            assert (body, response, said) == given, inspect.getsource(act)
