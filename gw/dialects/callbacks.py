"""Results that are sent to an address of the caller's, tried again as the caller's vendor does."""

from __future__ import annotations

import attrs
import structlog
import trio

from gw.gateway import Gateway
from gw.net import recordings
from gw.net.http1 import Headers

_log = structlog.get_logger()


@attrs.frozen(kw_only=True)
class Callback:
    """Address of a result. A status of 2xx accepts it; `final`: other statuses after which the vendor does not try again."""

    url: str
    headers: Headers = ()
    method: bytes = b"POST"
    tries: int = 10
    pause_s: float
    within_s: float = 10.0
    final: range = range(0)


async def deliver(gateway: Gateway, callback: Callback, body: bytes, request_id: str) -> bool:
    """Send `body` until it is accepted, and return whether it was. Logs the outcome; never raises an error of the receiver's."""
    headers = [(b"content-type", b"application/json"), (b"user-agent", b"gw"), *callback.headers]
    outcome: int | str = ""
    for number in range(1, callback.tries + 1):
        outcome = await recordings.post(
            gateway.pool.connect, callback.url, headers, body, within_s=callback.within_s, method=callback.method,
            private_hosts=gateway.settings.serve.recording_hosts,
        )
        if isinstance(outcome, int) and 200 <= outcome < 300:
            _log.info("callback_accepted", request_id=request_id, tries=number)
            return True
        if outcome in callback.final:
            break
        if number < callback.tries:
            await trio.sleep(callback.pause_s)
    _log.warning("callback_failed", request_id=request_id, tries=number, outcome=outcome)
    return False
