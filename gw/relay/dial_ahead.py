"""Connections to the candidate that would take over, made when the one that speaks falls silent, before it has failed.

So a takeover does not wait for a handshake. Nothing is sent, so nothing is billed. Where an ordinary pause ends in time, no
connection is made: `dial_after_s`. One that was made in vain is kept, for the next silence, for a minute at most.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import trio

from gw.errors import ProviderError
from gw.net.prewarm import PrewarmedSockets
from gw.policy.response_times import ResponseTimes
from gw.providers.spec import Account, ProviderSpec
from gw.registry.catalog import Model
from gw.relay.audio_supply import LOW_S
from gw.relay.in_flight import InFlight
from gw.types.tts import SpeakLiveRequest

QUIET_S: Final = 0.2
"""An ordinary pause between two pieces of audio."""
_LONGEST_LOW_S = 1.0
UNKNOWN_LOW_S: Final = 0.6
"""Time assumed until the first audio of a candidate that was never measured. Calling it too early is better than a gap, and it is
never called after a shorter silence."""
FIRST_AUDIO: Final = "audio"
"""Name of the response time from text to audio in a live session."""


def dial_after_s(left_s: float) -> float:
    """Return how long nothing may come before the next candidate is dialled, for a listener who had so much left to play."""
    return max(QUIET_S, left_s / 2)


def low_s(times: ResponseTimes, following: Model | None) -> float:
    """Return how much the listener must have left to play when the next candidate is called: what that one needs to begin."""
    if following is None:
        return LOW_S
    known = [times.longest_s((following.id, "tts", True, event)) for event in (FIRST_AUDIO, "content")]
    usual_s = next((seconds for seconds in known if seconds is not None), UNKNOWN_LOW_S)
    return min(_LONGEST_LOW_S, max(LOW_S, usual_s))


class SocketsAhead:
    """Sockets of one live session, whose `nursery` owns their tasks."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.sockets = PrewarmedSockets(nursery, replaces=False)
        self._nursery = nursery

    def dial(self, spec: ProviderSpec, account: Account, request: SpeakLiveRequest) -> None:
        """Dial the socket on which `account` would speak, or connect, unless there is a spare already."""
        if spec.speak_socket is None:
            if is_warmed(spec, account):
                self._nursery.start_soon(warm, account)
            return
        path, headers = spec.speak_socket(request, account)
        self.sockets.dial((account.provider_id, account.origin, path.encode(), tuple(headers)), account.pool.connect)


class ConnectionAhead:
    """A connection for a request over HTTP: the deadline keeper calls `expire` when it is due."""

    def __init__(self, in_flight: InFlight, account: Account) -> None:
        self._in_flight = in_flight
        self._account = account

    def expire(self) -> None:
        keeper = self._in_flight.keeper
        keeper.deadlines.pop(self, None)
        if keeper.nursery is not None and not self._in_flight.stopping:
            keeper.nursery.start_soon(warm, self._account)


def is_warmed(spec: ProviderSpec, account: Account) -> bool:
    """Return whether calls of this provider take their connection from the pool."""
    return spec.needs_address and account.origin.scheme in ("http", "https")


async def warm(account: Account) -> None:
    """Connect. A failure is left out: the call that needs the connection reports it."""
    with suppress(ProviderError):
        await account.pool.warm(account.provider_id, account.origin)
