"""Messages that receivers have not accepted yet: in order for each of them, tried until they are accepted, and kept in the database.

Every receiver has a task of its own, so one that is away holds up no other. A message is removed when its receiver has answered 2xx;
a gateway that is killed in between sends it again, with the same id.

    stored ──sent──▶ accepted (removed)
      ▲        └─fault─┐
      └──after 1, 2, 4 … 300 s, or Retry-After──┘        older than GIVE_UP_S, or one of more than MOST: given up (removed, logged)

While the database cannot be written, messages are sent from memory, since one of them may say just that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping

import structlog
import trio
from msgspec.structs import replace

from gw.alerts.receivers import Sender
from gw.config.alert_settings import AlertReceiver
from gw.errors import AlertsLedElsewhere, StoreError
from gw.store.alert_rows import AlertChange
from gw.telemetry.clock import Clock
from gw.types.alerts import AlertMessage, PendingMessage

GIVE_UP_S = 7 * 86_400.0
MOST = 1_000
"""Messages that wait for one receiver, about 1 kB each."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 300.0
_log = structlog.get_logger()

Write = Callable[[AlertChange], Awaitable[None]]
"""Stores a change. Raises StoreError."""
Confirm = Callable[[], Awaitable[None]]
"""Raises AlertsLedElsewhere if another gateway sends now, and StoreError if nobody can say."""


class _Line:
    """The messages of one receiver."""

    def __init__(self) -> None:
        self.waiting: deque[PendingMessage] = deque()
        self.stirred = trio.Event()  # by a new message, or a changed receiver
        self.scope: trio.CancelScope | None = None

    def stir(self) -> None:
        self.stirred.set()
        self.stirred = trio.Event()


class Outbox:
    """Runs a task for each receiver, in the nursery that it is given."""

    def __init__(self, nursery: trio.Nursery, sender: Sender, clock: Clock, write: Write, confirm: Confirm) -> None:
        self._nursery = nursery
        self._sender = sender
        self._clock = clock
        self._write = write
        self._confirm = confirm
        self._lines: dict[str, _Line] = {}
        self._receivers: Mapping[str, AlertReceiver] = {}
        self._unstored = AlertChange()
        self._storing = trio.Lock()

    def follow(self, receivers: Mapping[str, AlertReceiver]) -> None:
        """Put the configured receivers in force. The messages of one that is gone are given up; a changed one is tried at once."""
        before, self._receivers = self._receivers, receivers
        for name in [name for name in self._lines if name not in receivers]:
            self._end(name)
        for name, receiver in receivers.items():
            line = self._line(name)
            if before.get(name) not in (None, receiver):
                line.stir()

    def load(self, pending: Iterable[PendingMessage]) -> None:
        """Take over what a run before has left. Messages for receivers that are no longer configured are given up."""
        for one in pending:
            if one.receiver in self._receivers:
                self._lines[one.receiver].waiting.append(one)
            else:
                self._give_up(one, "it is no longer configured")
        for line in self._lines.values():
            line.stir()

    def pending_of(self, message: AlertMessage) -> tuple[PendingMessage, ...]:
        return tuple(PendingMessage(receiver=name, message=message) for name in self._receivers)

    def add(self, pending: Iterable[PendingMessage]) -> None:
        """Send these after what waits already. The caller has stored them, or could not."""
        for one in pending:
            line = self._line(one.receiver)
            line.waiting.append(one)
            if len(line.waiting) == 1:
                line.stir()
            elif len(line.waiting) > MOST:
                self._give_up(line.waiting.popleft(), f"more than {MOST} messages wait for it")

    async def store(self, change: AlertChange) -> bool:
        """Store a change with those that could not be stored before; return whether that succeeded. Raises AlertsLedElsewhere."""
        async with self._storing:  # one after the other: what failed must not overwrite what came later
            whole, self._unstored = together(self._unstored, change), AlertChange()
            try:
                await self._write(whole)
            except AlertsLedElsewhere:
                raise
            except StoreError as error:
                self._unstored = together(whole, self._unstored)
                _log.warning("alerts_not_stored", why=error.message)
                return False
        return True

    async def _confirm_sending(self) -> None:
        try:
            await self._confirm()
        except AlertsLedElsewhere:
            raise
        except StoreError:
            return  # the database is away, which the message may say

    def _line(self, name: str) -> _Line:
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = _Line()
            self._nursery.start_soon(self._send_all, name, line)
        return line

    def _end(self, name: str) -> None:
        line = self._lines.pop(name)
        if line.scope is not None:
            line.scope.cancel()
        for one in line.waiting:
            self._give_up(one, "it is no longer configured")

    def _give_up(self, one: PendingMessage, why: str) -> None:
        _log.error("alert_given_up", receiver=one.receiver, message_id=one.message.id, tries=one.tries, why=why)
        self._unstored = together(self._unstored, AlertChange(sent=((one.message.id, one.receiver),)))

    async def _send_all(self, name: str, line: _Line) -> None:
        with trio.CancelScope() as line.scope:
            pause_s = _FIRST_PAUSE_S
            while True:
                if not line.waiting:
                    await line.stirred.wait()
                    continue
                one = line.waiting[0]
                if self._clock.now() - one.message.created_at > GIVE_UP_S:
                    self._give_up(line.waiting.popleft(), f"it did not accept the message within {GIVE_UP_S / 86_400:g} days")
                    await self.store(AlertChange())
                    continue
                await self._confirm_sending()
                outcome = await self._sender.send(self._receivers[name], one.message, self._clock.now())
                if not outcome.why:
                    pause_s = _FIRST_PAUSE_S
                    if line.waiting and line.waiting[0] is one:  # else it was given up meanwhile, and the next one has not been sent
                        line.waiting.popleft()
                    _log.info("alert_sent", receiver=name, message_id=one.message.id, tries=one.tries + 1)
                    await self.store(AlertChange(sent=((one.message.id, name),)))
                    continue
                tried = replace(one, tries=one.tries + 1, last_error=outcome.why)
                if line.waiting and line.waiting[0] is one:
                    line.waiting[0] = tried
                if tried.tries == 1:
                    _log.warning("alert_not_sent", receiver=name, message_id=one.message.id, why=outcome.why)
                await self.store(AlertChange(pending=(tried,)))
                with trio.move_on_after(max(pause_s, outcome.retry_after_s)):
                    await line.stirred.wait()
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def together(first: AlertChange, second: AlertChange) -> AlertChange:
    """Return both changes as one; for the same incident or message the second one counts."""
    incidents = {one.id: one for one in (*first.incidents, *second.incidents)}
    pending = {(one.message.id, one.receiver): one for one in (*first.pending, *second.pending)}
    sent = tuple(dict.fromkeys((*first.sent, *second.sent)))
    forgotten = tuple(dict.fromkeys((*first.forgotten, *second.forgotten)))
    for gone in forgotten:
        incidents.pop(gone, None)
    for key in sent:
        pending.pop(key, None)
    return AlertChange(
        incidents=tuple(incidents.values()), forgotten=forgotten, pending=tuple(pending.values()), sent=sent,
        closed_before=max(first.closed_before, second.closed_before),
    )  # fmt: skip
