"""A gateway that is too busy to read a provider's answer does not take the provider for silent."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import partial

import pytest
import trio
import trio.testing
from websockets.frames import Opcode

from gw.errors import ProviderError
from gw.net.http1 import Pool
from gw.net.poller import OFFERED, Poller, SocketWatcher
from gw.providers.sim import fsk
from gw.types.audio import PCM_16K
from gw.types.ids import Caller
from gw.types.stt import Final, ListenEnd, ListenRequest
from tests.net.test_ws import accepts

pytestmark = pytest.mark.skipif(not OFFERED, reason="epoll is Linux's")

CONFIG = """
providers: {{deepgram: {{api_key: k, base_url: "http://127.0.0.1:{port}"}}}}
models: {{stt: [deepgram/nova-3]}}
routing: {{hedge: off}}
"""
FINAL = (
    '{"type":"Results","start":0.0,"duration":1.0,"is_final":true,"speech_final":true,'
    '"channel":{"alternatives":[{"transcript":"one two","confidence":0.9,"words":[]}]}}'
)
END = '{"type":"Metadata","request_id":"r","duration":1.0,"channels":1}'
OTHERS = 200
"""Sockets of other sessions that always have something to read: one pass of the poller, 64 of them, is not enough for all."""
READ_S = 0.02
"""Virtual time that each of them takes."""


@contextmanager
def busy(poller, clock, is_busy):
    """Other sessions whose frames take all the time while `is_busy` is set."""
    ours, theirs = os.pipe()
    os.write(theirs, b"frame")
    others = [os.dup(ours) for _ in range(OTHERS)]

    class Other(SocketWatcher):
        def ready(self):
            if is_busy():
                clock.jump(READ_S)

    other = Other()
    for descriptor in others:
        poller.read(descriptor, other)
    try:
        yield
    finally:
        for descriptor in others:
            poller.forget(descriptor, other)
        for descriptor in (*others, ours, theirs):
            os.close(descriptor)


@pytest.fixture
async def vendor(nursery):
    """A vendor that answers when the end is announced, if `answers`, and the port it listens at."""

    class Vendor:
        answers, answered = True, False

        async def talk(self, session):
            while (frame := await session.next()) is not None:
                if frame.opcode is Opcode.TEXT and b"CloseStream" in frame.data and self.answers:
                    await session.frame(Opcode.TEXT, FINAL.encode())
                    await session.frame(Opcode.TEXT, END.encode())
                    self.answered = True

    made = Vendor()
    (listener,) = await nursery.start(partial(trio.serve_tcp, accepts(made.talk), 0, host="127.0.0.1"))
    made.port = listener.socket.getsockname()[1]
    return made


async def spoken(h, poller, clock, vendor):
    """Return the events of a session at whose end the gateway becomes busy."""
    events, passes = [], []
    async with h.relay.listen(ListenRequest(model="deepgram/nova-3", format=PCM_16K), Caller()) as session, trio.open_nursery() as nursery:
        await session.send_audio(b"".join(fsk.encode("one two", 16_000)))
        while session.call is None:
            await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(session.finish)

        def is_busy():
            passes.append(clock.current_time())
            return True

        with busy(poller, clock, is_busy), trio.move_on_after(60):
            while not session.done:
                events += await session.receive()
        nursery.cancel_scope.cancel()
    return events


async def test_an_answer_that_waits_to_be_read_is_an_answer(make_relay, nursery, vendor, mock_clock):
    nursery.start_soon((poller := Poller()).run)
    h = make_relay(CONFIG.format(port=vendor.port), Pool())
    events = await spoken(h, poller, mock_clock, vendor)
    assert [event.text for event in events if isinstance(event, Final)] == ["one two"]
    assert isinstance(events[-1], ListenEnd)
    assert [attempt.outcome for attempt in h.sink.record.attempts] == ["ok"]


async def test_one_that_says_nothing_is_given_up_while_the_gateway_is_busy(make_relay, nursery, vendor, mock_clock):
    vendor.answers = False
    nursery.start_soon((poller := Poller()).run)
    h = make_relay(CONFIG.format(port=vendor.port), Pool())
    with pytest.raises(ProviderError):
        await spoken(h, poller, mock_clock, vendor)
    assert h.sink.record.attempts[0].outcome == "too_slow"
