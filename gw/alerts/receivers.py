"""Sending one message to one receiver, once: a signed webhook, Slack, or anything that the library Apprise knows.

Signatures follow Standard Webhooks 1.0 (https://www.standardwebhooks.com): the HMAC-SHA256 of `id.timestamp.body`, in base64.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from functools import partial
from typing import Protocol

import structlog
import trio

from gw.alerts.message_text import lines, slack_body, title, webhook_body
from gw.config.alert_rules import APPRISE_MODULE, apprise_missing
from gw.config.alert_settings import AlertReceiver, signing_key
from gw.net.connect import Connect
from gw.net.http1 import Headers
from gw.net.webhook_post import PostOutcome, post
from gw.types.alerts import AlertMessage
from gw.types.secret import Secret

ANSWER_S = 10.0
APPRISE_S = 20.0  # for a service to take a message
_log = structlog.get_logger()


class _Services(Protocol):
    """Apprise's object that sends to one address."""

    def notify(self, *, body: str, title: str, notify_type: str) -> bool | None: ...


class Sender:
    """Sends messages. Apprise blocks, so each of its addresses has a thread of its own: one that hangs delays no other.

    The next message waits for that thread, so that messages arrive in order also where one was left after its time.
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._threads: dict[str, trio.CapacityLimiter] = {}

    async def send(self, receiver: AlertReceiver, message: AlertMessage, now: float) -> PostOutcome:
        """Try once. Never raises; an outcome whose `why` is "" means that the receiver has the message."""
        url = receiver.url.reveal()
        match receiver.type:
            case "webhook":
                body = webhook_body(message)
                headers = signed_headers(message.id, int(now), body, receiver.secret)
                return await post(self._connect, url, headers, body, within_s=ANSWER_S)
            case "slack":
                return await post(self._connect, url, (), slack_body(message), within_s=ANSWER_S)
            case "apprise":
                return await self._by_apprise(url, message)

    async def _by_apprise(self, url: str, message: AlertMessage) -> PostOutcome:
        text = "\n\n".join(lines(message))
        kinds = [notice.kind for notice in message.notices]
        kind = "info" if not kinds else "success" if set(kinds) <= {"recovered", "passed"} else "failure"
        services, why = await trio.to_thread.run_sync(services_of, url)
        if services is None:
            return PostOutcome(why=why)
        with trio.move_on_after(APPRISE_S):
            work = partial(notify, services, title(message), text, kind)
            thread = self._threads.setdefault(url, trio.CapacityLimiter(1))
            return PostOutcome(why=await trio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=thread))
        return PostOutcome(why=f"Apprise has not finished within {APPRISE_S:g} s")


def signed_headers(message_id: str, timestamp: int, body: bytes, secret: Secret) -> Headers:
    """Return the headers that identify and sign a message; `timestamp` in Unix seconds, of this try."""
    signed = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    signature = base64.b64encode(hmac.digest(signing_key(secret), signed, hashlib.sha256))
    return (
        (b"webhook-id", message_id.encode()), (b"webhook-timestamp", b"%d" % timestamp), (b"webhook-signature", b"v1," + signature),
    )  # fmt: skip


def services_of(url: str) -> tuple[_Services | None, str]:
    """Load Apprise and return what sends to an address, and "", or None and why not. Blocks.

    Nothing is sent yet, and no time limit applies: on a busy machine its hundred plugins take long to load, once.
    """
    if missing := apprise_missing():
        return None, missing
    import logging

    logging.getLogger(APPRISE_MODULE).disabled = True
    try:
        import apprise

        services = apprise.Apprise()
        known = services.add(url)
    except Exception as error:  # of the library, or of one of its plugins
        return None, _failed(error)
    return (services, "") if known else (None, "Apprise does not know this kind of address, or it is incomplete")


def notify(services: _Services, subject: str, text: str, kind: str) -> str:
    """Send by Apprise; return "" or why not. Blocks. What the library says may contain the address, so it is not passed on."""
    try:
        return "" if services.notify(body=text, title=subject, notify_type=kind) else "Apprise could not deliver the message"
    except Exception as error:  # of one of its plugins; its text may contain the address
        return _failed(error)


def _failed(error: Exception) -> str:
    _log.warning("alert_library_failed", error=type(error).__name__)
    return f"Apprise failed: {type(error).__name__}"
