"""Requests a minute and calls at once of a key that several processes share."""

from __future__ import annotations

from collections.abc import Callable

from gw.relay.leased_limits import LeasedBucket, LeasedSlots
from gw.relay.leases import Leases
from gw.relay.places import Places
from gw.types.ids import KeyLimits


class SharedKey:
    """The part of a key's limits that this process may give away. `follow` must be called with the limits before they are used."""

    __slots__ = ("_in_flight", "_leases", "_limits", "_name", "_places", "bucket", "slots")

    def __init__(self, leases: Leases, key_id: str, in_flight: Callable[[], int]) -> None:
        """`in_flight` returns how many requests of the key run in this process."""
        self._leases = leases
        self._name = f"key:{key_id}"
        self._in_flight = in_flight
        self._limits: KeyLimits | None = None
        self._places: Places | None = None
        self.bucket: LeasedBucket | None = None
        self.slots: LeasedSlots | None = None

    def follow(self, limits: KeyLimits | None) -> None:
        """Count by these limits from now on; None: the key has none any more."""
        if limits is self._limits:
            return
        self._limits = limits
        per_minute = None if limits is None else limits.requests_per_minute
        if (None if self.bucket is None else self.bucket.per_minute) != per_minute:
            if self.bucket is not None:
                self.bucket.end()
            self.bucket = None if per_minute is None else LeasedBucket(self._leases, f"rate:{self._name}", per_minute)
        most = None if limits is None else limits.max_concurrent
        if (None if self.slots is None else self.slots.lease.limit) != most:
            if self.slots is not None:
                self.slots.end()
            self.slots = None if most is None else self._new_slots(most)

    def _new_slots(self, most: int) -> LeasedSlots:
        return LeasedSlots(self._leases, f"slots:{self._name}", most, self._in_flight, self.hand_over)

    def is_full(self) -> bool:
        """Return whether as many requests of the key run, or are about to, as this process may have."""
        promised = self._places.promised if self._places is not None else 0
        return self.slots is not None and self._in_flight() + promised >= self.slots.most

    async def wait_for_slot(self) -> bool:
        """Wait for a slot, up to `PLACE_S`. Return whether there is one."""
        slots = self.slots
        if slots is None:
            return True
        if (bank := slots.wait()) is not None:
            await bank
            if not self.is_full():
                return True
        if self._places is None:
            self._places = Places(slots.most, self._in_flight)
        self._places.most = slots.most
        return await slots.queue(self._places.wait(""))

    def hand_over(self) -> None:
        """Give a free slot to the request whose turn it is."""
        if self._places is not None and self.slots is not None:
            self._places.most = self.slots.most
            self._places.hand_over()

    def enter(self) -> None:
        if self.slots is not None:
            self.slots.enter()

    def leave(self) -> None:
        if self.slots is not None:
            self.slots.leave()
            self.hand_over()
