"""The channel for turns of a fleet, in Valkey. It has a connection of its own, so that words never delay what counts for limits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from gw.errors import BankUnreachable
from gw.fleet.valkey_bank import CONNECT_S, bounded, connect, why
from gw.types.bank_address import BankAddress

if TYPE_CHECKING:
    from glide import GlideClient, GlideClusterClient

FORM = 1
"""Form of the messages. Gateways with another one, while a fleet is upgraded, do not hear them."""
_TIME = "return redis.call('TIME')"


class ValkeyTurns:
    """Implements `TurnBoard`. A server, or the node of a cluster that has the channel, gives all gateways one order of messages."""

    def __init__(self, client: GlideClient | GlideClusterClient, address: BankAddress, fleet: str) -> None:
        from glide import Script

        self._client, self._address = client, address
        self._channel = channel_for_turns(fleet)
        self._time = Script(_TIME)

    async def publish(self, message: bytes) -> None:
        with bounded(self._address):
            await self._client.publish(message, self._channel)

    async def receive(self) -> bytes:
        from glide import GlideError

        try:
            received = await self._client.get_pubsub_message()
        except GlideError as error:
            raise BankUnreachable(address=str(self._address), why=why(error)) from error
        message = received.message
        return message if isinstance(message, bytes) else message.encode()

    async def time(self) -> float:
        """Return the time of the node that has the channel's key."""
        with bounded(self._address):
            seconds, microseconds = await self._client.invoke_script(self._time, keys=[self._channel], args=[])
        return int(seconds) + int(microseconds) / 1e6


def channel_for_turns(fleet: str) -> str:
    return f"gw:{{{fleet}}}:turns:{FORM}"


@asynccontextmanager
async def open_turns(address: BankAddress, fleet: str) -> AsyncIterator[ValkeyTurns]:
    """Connect. Raise BankUnreachable."""
    from glide import GlideError

    try:
        with trio.fail_after(2 * CONNECT_S):
            client = await connect(address, channel_for_turns(fleet))
    except (GlideError, trio.TooSlowError) as error:
        raise BankUnreachable(address=str(address), why=why(error)) from error
    try:
        yield ValkeyTurns(client, address, fleet)
    finally:
        with trio.move_on_after(1, shield=True):
            await client.close()
