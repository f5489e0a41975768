"""Results that are sent to an address of the caller's, tried again as the caller's vendor does, also after a restart.

A callback is in the database from the moment that its request is accepted, with the notice that is sent should gw be stopped
before the result; then with the result and the tries that were made. It is removed when the receiver has accepted it, or when no
try is left. So a receiver gets each result at least once, and after a kill perhaps twice.

Status of a callback:  kept -- the request ends --> due -- 2xx --> accepted (removed)
                                                    due -- no try or time is left --> failed (removed)
"""

from __future__ import annotations

import msgspec
import structlog
import trio

from gw.errors import GwError, StoreError
from gw.gateway import Gateway
from gw.net import recordings
from gw.net.http1 import Headers
from gw.store.entity_rows import Change, StoredCallback
from gw.types.secret import Secret

LIFETIME_S = 86_400.0
"""A callback that is older is not sent any more after a restart."""
CUT = "gw was stopped before the transcript was complete: send the recording again"

_log = structlog.get_logger()


class Callback(msgspec.Struct, frozen=True, kw_only=True):
    """Address of a result. A status of 2xx accepts it; `final`: other statuses after which the vendor does not try again.

    `credential`: a header that proves who sends, which is stored encrypted; its name is "" for none.
    """

    url: str
    headers: Headers = ()
    credential: tuple[bytes, bytes] = (b"", b"")
    method: bytes = b"POST"
    tries: int = 10
    pause_s: float
    within_s: float = 10.0
    final: range = range(0)


class _Stored(msgspec.Struct, frozen=True):
    """A callback in the database. `run`: the run of the gateway that wrote it; others are resumed."""

    run: str
    url: str
    headers: list[tuple[bytes, bytes]]
    sealed: bytes
    method: bytes
    tries: int
    tried: int
    pause_s: float
    within_s: float
    final: tuple[int, int]
    body: bytes


_decode = msgspec.msgpack.Decoder(_Stored).decode


async def row_of(gateway: Gateway, callback: Callback, body: bytes, request_id: str, tried: int = 0) -> StoredCallback:
    """Return the row of a callback. Raises ConfigError where its credential cannot be encrypted."""
    name, value = callback.credential
    sealed = b""
    if name:
        vault = await gateway.registrar.vault()
        secret = Secret(f"{name.decode('latin-1')}:{value.decode('latin-1')}")
        sealed = vault.encrypt(secret, provider=request_id, origin=callback.url)
    state = _Stored(
        gateway.run_id, callback.url, list(callback.headers), sealed, callback.method, callback.tries, tried,
        callback.pause_s, callback.within_s, (callback.final.start, callback.final.stop), body,
    )
    expires_at = gateway.clock.now() + LIFETIME_S
    return StoredCallback(request_id, expires_at, msgspec.msgpack.encode(state))


async def keep(gateway: Gateway, callback: Callback, body: bytes, request_id: str, tried: int = 0) -> None:
    """Store a callback, so that a restart sends `body`. Raises StoreError, ConfigError."""
    row = await row_of(gateway, callback, body, request_id, tried)
    await gateway.store.change(Change(callbacks=(row,)))


async def forget(gateway: Gateway, request_id: str) -> None:
    """Remove a callback; if that fails, it is sent again after the next start."""
    await _change(gateway, Change(callbacks_done=(request_id,)), request_id)


async def deliver(gateway: Gateway, callback: Callback, body: bytes, request_id: str, *, tried: int = 0) -> bool:
    """Send `body` until it is accepted, and return whether it was. Log the outcome; never raise an error of the receiver's.

    `tried`: tries before a restart.
    """
    headers = [(b"content-type", b"application/json"), (b"user-agent", b"gw"), *callback.headers]
    headers += [callback.credential] if callback.credential[0] else []
    outcome: int | str = "no try is left"
    number = tried
    for number in range(tried + 1, callback.tries + 1):
        await _note(gateway, callback, body, request_id, number)
        outcome = await recordings.post(
            gateway.pool.connect, callback.url, headers, body, within_s=callback.within_s, method=callback.method,
            private_hosts=gateway.settings.serve.recording_hosts,
        )
        if isinstance(outcome, int) and 200 <= outcome < 300:
            _log.info("callback_accepted", request_id=request_id, tries=number)
            await forget(gateway, request_id)
            return True
        if outcome in callback.final:
            break
        if number < callback.tries:
            with gateway.background.resting():  # the next start goes on
                await trio.sleep(callback.pause_s)
    _log.warning("callback_failed", request_id=request_id, tries=number, outcome=outcome)
    await forget(gateway, request_id)
    return False


async def resume(gateway: Gateway) -> None:
    """Go on with the callbacks that the last run of the gateway left behind."""
    try:
        rows = await gateway.store.callbacks()
    except StoreError as error:
        _log.warning("callbacks_not_resumed", why=error.message)
        return
    for row in rows:
        try:
            state = _decode(row.body)
            if state.run == gateway.run_id:
                continue
            if row.expires_at < gateway.clock.now():
                _log.warning("callback_failed", request_id=row.id, tries=state.tried, outcome="it is older than a day")
                await forget(gateway, row.id)
                continue
            _start(gateway, row.id, await _restored(gateway, row.id, state), state)
        except (GwError, msgspec.MsgspecError) as error:
            _log.warning("callback_not_resumed", request_id=row.id, why=str(error))


def _start(gateway: Gateway, request_id: str, callback: Callback, state: _Stored) -> None:
    _log.info("callback_resumed", request_id=request_id, tries=state.tried)

    async def work() -> None:
        await deliver(gateway, callback, state.body, request_id, tried=state.tried)

    gateway.background.start(work)


async def _restored(gateway: Gateway, request_id: str, state: _Stored) -> Callback:
    """Return the callback of a row. Raises KeyDecryptError, ConfigError."""
    credential = (b"", b"")
    if state.sealed:
        vault = await gateway.registrar.vault()
        text = vault.decrypt(state.sealed, provider=request_id, origin=state.url).reveal()
        name, _, value = text.encode("latin-1").partition(b":")
        credential = (name, value)
    return Callback(
        url=state.url, headers=state.headers, credential=credential, method=state.method, tries=state.tries,
        pause_s=state.pause_s, within_s=state.within_s, final=range(*state.final),
    )


async def _note(gateway: Gateway, callback: Callback, body: bytes, request_id: str, tried: int) -> None:
    """Store the result and the number of a try, before it is made: a gateway that is killed in each try gives up too."""
    try:
        await _change(gateway, Change(callbacks=(await row_of(gateway, callback, body, request_id, tried),)), request_id)
    except GwError as error:
        _log.warning("callback_not_stored", request_id=request_id, why=str(error))


async def _change(gateway: Gateway, change: Change, request_id: str) -> None:
    try:
        await gateway.store.change(change)
    except StoreError as error:
        _log.warning("callback_not_stored", request_id=request_id, why=error.message)
