"""The phrases of a fleet in Valkey: one call for each step of `gw.fleet.phrase_script`, over a connection of its own.

So audio never delays what counts for limits. Every call is bounded, and raises BankUnreachable where the server does not answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import attrs
import msgspec
import trio

from gw.errors import BankUnreachable
from gw.fleet.phrase_script import BEGIN_CLEAR, CLEAR_STEP, FOLLOW, NAMES, PUT, REPLACE_KEY, TOUCH
from gw.fleet.valkey_bank import CONNECT_S, bounded, connect, why
from gw.types.bank_address import BankAddress

if TYPE_CHECKING:
    from glide import GlideClient, GlideClusterClient, Script

FORM = 1
"""Form of the entries. Gateways with another one, while a fleet is upgraded, have phrases of their own."""
KEEP_S = 30 * 86_400
"""A phrase that no gateway has used for so long is deleted."""
CLEARS = 1_000
"""Clears that are kept; a gateway that has missed more forgets everything."""
_ENTRY_BYTES = 500  # of the server for each phrase, beside its text and audio
_PAGE = 50
"""Changes that are read in one call: noting the marks of so many takes about a millisecond."""
_UNANSWERED = 16
"""Calls without an answer, whose arguments are kept: the client would write memory that is free to the server."""


class PhraseClear(msgspec.Struct, frozen=True, array_like=True):
    """Which phrases were cleared: None = of any."""

    project: str | None = None
    model_id: str | None = None
    voice: str | None = None


@attrs.frozen(kw_only=True)
class FleetPhraseNews:
    """Changes that a gateway did not know yet. `is_last`: there are no more."""

    generation: str
    sealed_key: bytes
    """Sealed key of a generation that was not known, else empty."""
    number: int
    clears: int
    """Number of the latest clear."""
    phrases: int
    stored_bytes: int
    is_last: bool
    added: Sequence[tuple[bytes, bytes]]
    """Hashed key and marks of each phrase."""
    cleared: Sequence[tuple[int, PhraseClear]]


@attrs.frozen(kw_only=True)
class FleetPhrase:
    """A phrase as the server gets it. `hashed`: its key."""

    hashed: bytes
    takes: int
    project: str
    model_id: str
    voice: str
    marks: bytes
    body: bytes

    @property
    def size(self) -> int:
        return len(self.body) + len(self.marks) + _ENTRY_BYTES


class ValkeyPhrases:
    """A connection to the server. `open_phrases` makes it."""

    def __init__(self, client: GlideClient | GlideClusterClient, address: BankAddress, fleet: str) -> None:
        from glide import Script

        self._client, self._address = client, address
        self._keys = [f"gw:{{{fleet}}}:phrases:{FORM}:{name}".encode() for name in NAMES]
        self._bodies = self._keys[NAMES.index("bodies")]
        self._follow, self._put, self._touch = Script(FOLLOW), Script(PUT), Script(TOUCH)
        self._begin_clear, self._clear_step, self._replace_key = Script(BEGIN_CLEAR), Script(CLEAR_STEP), Script(REPLACE_KEY)
        self._unanswered = deque[list[bytes]](maxlen=_UNANSWERED)

    async def news(self, generation: str, number: int, clears: int, begin: tuple[str, bytes] | None) -> FleetPhraseNews | None:
        """Return the changes after `number`, of another generation all of them; and the clears after `clears`.

        Without a generation on the server, `begin` is the one to begin with, and its sealed key; None without it.
        """
        fresh, sealed = ("", b"") if begin is None else begin
        answer = await self._run(self._follow, generation, number, clears, _PAGE, fresh, sealed)
        if answer[0] == b"":
            return None
        current, sealed_key, last, latest_clear, phrases, size, changes, added, cleared = answer
        return FleetPhraseNews(
            generation=current.decode(), sealed_key=sealed_key, number=int(last), clears=int(latest_clear), phrases=phrases,
            stored_bytes=int(size), is_last=changes < _PAGE, added=[(hashed, marks) for hashed, marks in added],
            cleared=[_clear_of(text) for text in cleared],
        )  # fmt: skip

    async def replace_key(self, news: FleetPhraseNews, sealed_key: bytes) -> None:
        """Put the key of a generation, sealed with another secret, in place of the one that was read."""
        await self._run(self._replace_key, news.generation, news.sealed_key, sealed_key)

    async def put(self, phrase: FleetPhrase, generation: str, clears: int, most_bytes: int) -> tuple[bool, int]:
        """Store a phrase. Return False if something was cleared that the caller does not know of; and how many phrases left for it."""
        stored, evicted = await self._run(
            self._put, generation, clears, phrase.hashed, phrase.takes, phrase.size, phrase.project, phrase.model_id, phrase.voice,
            phrase.marks, phrase.body, most_bytes, KEEP_S * 1000,
        )  # fmt: skip
        return bool(stored), int(evicted)

    async def get(self, hashed: bytes) -> bytes | None:
        """Return the body of a phrase; None if there is none. The caller bounds the wait."""
        with bounded(self._address):
            body: bytes | None = await self._client.hget(self._bodies, hashed)
        return body

    async def touch(self, hashed: Sequence[bytes], most_bytes: int) -> int:
        """Note that phrases were used; return how many were deleted, beyond the limit or unused for long."""
        return int(await self._run(self._touch, most_bytes, KEEP_S * 1000, *hashed))

    async def clear(self, which: PhraseClear) -> tuple[int, int]:
        """Delete phrases; return the number of the clear, and how many phrases those were."""
        values = msgspec.structs.astuple(which)
        is_all = all(value is None for value in values)
        number, count = await self._run(self._begin_clear, msgspec.json.encode(which), CLEARS, int(is_all))
        cursor, wanted = b"0", [text for value in values for text in (("", "") if value is None else ("1", value))]
        while not is_all:
            cursor, dropped = await self._run(self._clear_step, cursor, *wanted)
            count += dropped
            if cursor == b"0":
                break
        return int(number), int(count)

    async def _run(self, script: Script, *arguments: str | bytes | int) -> Any:
        """Run a script. The client's thread reads the memory of its arguments later, also for a call that has been cancelled."""
        words = [text if isinstance(text, bytes) else str(text).encode("utf-8", "surrogatepass") for text in arguments]
        answered = False
        try:
            with bounded(self._address):
                answer = await self._client.invoke_script(script, keys=[*self._keys], args=[*words])
            answered = True
            return answer
        finally:
            if not answered:
                self._unanswered.append(words)


def _clear_of(text: bytes) -> tuple[int, PhraseClear]:
    number, _, which = text.partition(b" ")
    return int(number), msgspec.json.decode(which, type=PhraseClear)


@asynccontextmanager
async def open_phrases(address: BankAddress, fleet: str) -> AsyncIterator[ValkeyPhrases]:
    """Connect. Raise BankUnreachable."""
    from glide import GlideError

    try:
        with trio.fail_after(2 * CONNECT_S):
            client = await connect(address, None)
    except (GlideError, trio.TooSlowError) as error:
        raise BankUnreachable(address=str(address), why=why(error)) from error
    try:
        yield ValkeyPhrases(client, address, fleet)
    finally:
        with trio.move_on_after(1, shield=True):
            await client.close()
