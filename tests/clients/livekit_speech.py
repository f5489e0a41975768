"""Speech by LiveKit's plugins in tests on trio: their asyncio loop runs in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from gw.providers.sim import fsk

TEXT = "what is the weather in Paris today"


def words_of(pcm: bytes) -> str:
    """Return the words of the tone voice in audio of 24 kHz."""
    return " ".join(done.text for done in fsk.decode(pcm, 24_000))


async def in_loop(use: Callable[[], Awaitable[Any]]) -> Any:
    """Return what `use` returns on an asyncio loop of its own."""
    return await trio.to_thread.run_sync(lambda: asyncio.run(use()))


async def synthesize(make: Callable[[Any], Any]) -> bytes:
    """Return the audio of TEXT by the plugin that `make` returns for an HTTP session, which tries once. Called on an asyncio loop."""
    import aiohttp
    from livekit.agents import APIConnectOptions

    once = APIConnectOptions(max_retry=0)
    async with aiohttp.ClientSession() as session, make(session).synthesize(TEXT, conn_options=once) as stream:
        return b"".join([event.frame.data.tobytes() async for event in stream])
