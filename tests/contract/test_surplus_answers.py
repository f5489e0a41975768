"""Every provider's calls over HTTP against a vendor that says more than it was asked for on a connection that is kept: what comes on idle
is nobody's answer. tests/net/test_http1__surplus.py has more kinds of it, over real sockets.
"""

from __future__ import annotations

import attrs
import trio

from gw.net.http1 import Pool
from gw.providers.sim import fsk
from gw.providers.spec import spec_of
from gw.types.asgi import ASGIApp
from gw.types.audio import PCM_16K
from gw.types.stt import TranscribeRequest
from tests.contract.test_providers import FAR, Recording, audio, opened, read, spoken
from tests.contract.vendors import rig
from tests.fakes.cells import Cells
from tests.fakes.hosting import hosted

TEXTS = ("one two", "three four", "five six")
QUIET_S = 0.05
SURPLUS = {
    "the same answer again": lambda sent: sent,
    "408 on idle": lambda sent: b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 8\r\nconnection: close\r\n\r\ntoo slow",
    "a late error": lambda sent: b"HTTP/1.1 500 Oh\r\ncontent-length: 4\r\n\r\nlate",
    "half a line": lambda sent: b"HTTP/1.1 200 O",
}


class Recorded(trio.abc.Stream):
    """Keeps what was sent since the last surplus."""

    def __init__(self, stream):
        self._stream, self.sent, self.at = stream, b"", 0.0

    async def send_all(self, data):
        self.sent, self.at = self.sent + bytes(data), trio.current_time()
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self):
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes=None):
        return await self._stream.receive_some(max_bytes)

    async def aclose(self):
        await self._stream.aclose()


class Talkative:
    """Hosts a vendor; a while after each answer it sends the surplus."""

    def __init__(self, app: ASGIApp, surplus):
        self._handle, self._surplus, self.said = hosted(app), surplus, 0

    async def __call__(self, stream):
        recorded = Recorded(stream)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._say_more, recorded, stream)
            await self._handle(recorded)
            nursery.cancel_scope.cancel()

    async def _say_more(self, recorded, stream):
        while True:
            await trio.sleep(QUIET_S)
            if recorded.sent and trio.current_time() - recorded.at >= QUIET_S / 2:
                sent, recorded.sent = recorded.sent, b""
                self.said += 1
                await stream.send_all(self._surplus(sent))


def looking(net):
    """Connect like `net`, with connections that know whether something unread has come, as those of the kernel do."""

    async def connect(origin):
        transport = await net(origin)
        incoming = transport._stream.receive_stream._incoming
        transport.is_stale = lambda: bool(incoming._data)
        return transport

    return connect


async def answer(made, kind, text):
    """Return what one call gets."""
    if kind == "transcribe":
        made.vendor.hear(text)
        request = TranscribeRequest(model="m", audio=Recording(text), format=PCM_16K, audio_seconds=1.5, stream=False)
        async with spec_of(made.type).transcribe(request, made.account("stt")) as stream:
            events, _ = await read(stream)
        return events[-1].text
    async with opened(made, kind, text=text) as stream:
        events, _ = await read(stream)
    if kind == "chat":
        return spoken(events)
    assert len(audio(events)) > 1_000
    heard = " ".join(done.text for done in fsk.decode(audio(events), 24_000))
    return heard or made.vendor.ledger[-1].fields["text"]  # some of these vendors say the same whatever the text


async def test_each_caller_gets_its_own_answer(autojump_clock):
    cells = Cells(at_least=len(FAR) * len(SURPLUS))
    for type_, kind in FAR:
        for name, surplus in SURPLUS.items():
            with cells.cell(f"{type_}, {kind}, {name}"):
                async with trio.open_nursery() as nursery:
                    made = rig(type_, nursery)
                    vendors = []
                    for place in list(made.net.hosts):
                        vendors.append(Talkative(made.vendor.app, surplus))
                        made.net.hosts[place] = vendors[-1]
                    made = attrs.evolve(made, pool=Pool(connect=looking(made.net)))
                    with trio.fail_after(120):
                        for text in TEXTS:
                            assert await answer(made, kind, text) == text
                            await trio.sleep(3 * QUIET_S)
                    assert sum(vendor.said for vendor in vendors) >= len(TEXTS)
                    assert made.pool.opened >= len(TEXTS)
                    await made.pool.aclose()
                    nursery.cancel_scope.cancel()
    cells.check()
    assert cells.ran >= 72
