"""What is large is translated in a thread, so that everybody else is served meanwhile; the result is the same."""

from __future__ import annotations

import threading
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio

from gw.relay.large_requests import LARGE_BYTES, LargeRequests, TranslatedCall, is_large
from tests.fakes.running import open_running


@pytest.mark.parametrize(("size", "elsewhere"), [(0, False), (LARGE_BYTES, False), (LARGE_BYTES + 1, True)])
async def test_what_is_large_is_decoded_in_a_thread(size, elsewhere):
    length, thread = await LargeRequests().decode(lambda body: (len(body), threading.get_ident()), bytes(size))
    assert (length, thread != threading.get_ident()) == (size, elsewhere)


async def test_an_error_of_decoding_is_raised():
    with pytest.raises(msgspec.DecodeError):
        await LargeRequests().decode(msgspec.json.decode, b" " * (LARGE_BYTES + 1))


def test_the_members_count_together():
    half = msgspec.Raw(b" " * (LARGE_BYTES // 2))
    assert not is_large([half, half])
    assert is_large([half, half, msgspec.Raw(b"1")])


async def test_a_caller_who_leaves_does_not_wait_for_the_thread():
    """The thread ends on its own; what it made is dropped."""
    going, end = threading.Event(), threading.Event()

    def build():
        going.set()
        end.wait(20)
        raise AssertionError("nobody waits for this")

    with trio.fail_after(60), trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def leave():
                await trio.to_thread.run_sync(going.wait, 10)
                scope.cancel()

            nursery.start_soon(leave)
            call = TranslatedCall(LargeRequests(), build)
            async with call:
                raise AssertionError
    assert scope.cancelled_caught
    assert not call.began
    end.set()


async def test_the_call_that_was_built_is_entered_and_left():
    log = []

    @asynccontextmanager
    async def provider_call():
        log.append("entered")
        yield 7
        log.append("left")

    call = TranslatedCall(LargeRequests(), provider_call)
    assert not call.began
    async with call as stream:
        assert (stream, call.began) == (7, True)
    assert log == ["entered", "left"]


MESSAGES = [{"role": "user", "content": f"message {n}"} for n in range(20_000)]
ANTHROPIC = {"model": "sim/echo", "max_tokens": 9, "messages": MESSAGES}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"model": "sim/echo", "messages": MESSAGES}),
        ("/v1/messages", ANTHROPIC),
        ("/v1/responses", {"model": "sim/echo", "input": MESSAGES}),
        ("/ollama/api/chat", {"model": "sim/echo", "messages": MESSAGES, "stream": False}),
    ],
)
async def test_a_large_conversation_is_answered(tmp_path, path, body):
    """And another one with a mistake at its end is refused as a small one is."""
    async with open_running(tmp_path) as running:
        answer = await running.ask("POST", path, body)
        assert (answer.status, b"message 19999" in answer.body) == (200, True)
        record = (await running.get("/v1/logs")).json[0]
        assert (record["status"], record["cost_usd"] > 0) == ("success", True)
        name = "input" if "input" in body else "messages"
        assert (await running.ask("POST", path, {**body, name: [*MESSAGES, 7]})).status in (200, 400)
        assert (await running.ask("POST", path, {**body, "model": 7})).status == 400
