"""The meeting of an interposer's thread and a caller's task, where no HTTP library is needed to see it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from agentrewind.core.wire import WireReply
from agentrewind.integrations.clients import bridge

REPLY = WireReply(200, (), b"x")


def test_sends_are_awaited_in_the_caller_s_own_task():
    async def work():
        tasks = []

        async def send(body):
            tasks.append(asyncio.current_task())
            return WireReply(200, (), body)

        reply = await bridge.run(lambda ask: ask(ask(b"a").body + b"b"), send)
        assert reply.body == b"ab"
        assert tasks == [asyncio.current_task()] * 2

    asyncio.run(work())


def test_the_interposer_works_in_one_thread_that_is_not_the_loop_s():
    async def work():
        threads = []

        def call(send):
            threads.append(threading.get_ident())
            reply = send(None)
            threads.append(threading.get_ident())
            return reply

        async def send(_body):
            return REPLY

        assert await bridge.run(call, send) == REPLY
        assert len(set(threads)) == 1
        assert threading.get_ident() not in threads

    asyncio.run(work())


def test_a_coroutine_that_is_thrown_away_in_a_send_makes_this_and_every_further_send_raise():
    errors = []
    sending, ended = threading.Event(), threading.Event()

    def call(send):
        for _ in range(2):
            try:
                send(None)
            except GeneratorExit as error:
                errors.append(error)
        ended.set()
        return REPLY

    async def send(_body):
        sending.set()
        await asyncio.Future()

    async def work():
        task = asyncio.create_task(bridge.run(call, send))
        assert await asyncio.to_thread(sending.wait, 5)
        task.get_coro().close()
        assert await asyncio.to_thread(ended.wait, 5)
        task.cancel()
        with pytest.raises(RuntimeError, match="already awaited"):
            await task

    asyncio.run(work())
    assert len(errors) == 2


def test_no_thread_is_left_over():
    before = threading.active_count()

    async def send(_body):
        raise ConnectionError("no")

    for _ in range(3):
        with pytest.raises(ConnectionError):
            asyncio.run(bridge.run(lambda ask: ask(None), send))
    assert not [thread for thread in threading.enumerate() if thread.name == "agentrewind call"]
    assert threading.active_count() <= before + 1
