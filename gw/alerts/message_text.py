"""Messages in words, and in the forms of their receivers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from gw.types.alerts import AlertMessage, Notice, NoticeKind

_MOST_NOTICES = 40
"""Highest number in words; Slack takes 50 blocks (https://docs.slack.dev/reference/block-kit/blocks, November 2026)."""
_SECTION_CHARACTERS = 3_000  # of the text of a section block, on the same page
_WORDS: dict[NoticeKind, str] = {"raised": "New", "reminder": "Still open", "recovered": "Recovered", "passed": "Over since quiet times"}
_MARKS = {"critical": "\N{LARGE RED CIRCLE}", "warning": "\N{LARGE YELLOW CIRCLE}", "well": "\N{LARGE GREEN CIRCLE}"}


def title(message: AlertMessage) -> str:
    """Return the subject of a message, such as `gw-1: 2 new, 1 recovered`."""
    if not message.notices:
        return f"{message.gateway}: this is a test"
    kinds = [notice.kind for notice in message.notices]
    if len(kinds) == 1:
        return f"{message.gateway}: {_headline(message.notices[0])}"
    counts = [f"{kinds.count(kind)} {words.lower()}" for kind, words in _WORDS.items() if kind in kinds]
    return f"{message.gateway}: {', '.join(counts)}"


def lines(message: AlertMessage) -> Iterator[str]:
    """Yield a paragraph for each notice."""
    if not message.notices:
        yield "Alerts of this gateway arrive here. Nothing is wrong."
    for notice in message.notices[:_MOST_NOTICES]:
        yield f"{_headline(notice)}\n{notice.incident.text} ({_span(notice)})"
    if (more := len(message.notices) - _MOST_NOTICES) > 0:
        yield f"And {more} more: see `gw alerts list`."


def _headline(notice: Notice) -> str:
    incident = notice.incident
    name = f"{incident.rule} {incident.subject}".strip()
    return f"{_WORDS[notice.kind]} ({incident.severity}): {name}"


def _span(notice: Notice) -> str:
    incident = notice.incident
    begin = f"since {_time(incident.opened_at)}"
    return f"{begin} until {_time(incident.absent_since)} UTC" if incident.closed_at else f"{begin} UTC"


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}"


def webhook_body(message: AlertMessage) -> bytes:
    """Return the body for a webhook, in the form of Standard Webhooks: type, timestamp, data (docs/alerts.md)."""
    return msgspec.json.encode({
        "type": "alerts.incidents" if message.notices else "alerts.test",
        "timestamp": datetime.fromtimestamp(message.created_at, UTC).isoformat(),
        "data": {"gateway": message.gateway, "title": title(message), "incidents": [_incident(notice) for notice in message.notices]},
    })


def _incident(notice: Notice) -> dict[str, Any]:
    incident = notice.incident
    return {
        "id": incident.id, "state": notice.kind, "rule": incident.rule, "subject": incident.subject, "severity": incident.severity,
        "text": incident.text, "opened_at": incident.opened_at, "closed_at": incident.closed_at or None,
    }  # fmt: skip


def slack_body(message: AlertMessage) -> bytes:
    """Return the body for a Slack incoming webhook: `text` for notifications, and blocks.

    Slack's own characters are escaped as https://docs.slack.dev/messaging/formatting-message-text describes.
    """
    marks = [_mark(notice) for notice in message.notices[:_MOST_NOTICES]]
    paragraphs = list(lines(message))
    marks += [""] * (len(paragraphs) - len(marks))
    texts = [f"*{_escaped(title(message))}*", *(f"{mark} {_escaped(text)}".strip() for mark, text in zip(marks, paragraphs, strict=True))]
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": text[:_SECTION_CHARACTERS]}} for text in texts]
    return msgspec.json.encode({"text": _escaped(title(message)), "blocks": blocks})


def _mark(notice: Notice) -> str:
    return _MARKS["well" if notice.kind in ("recovered", "passed") else notice.incident.severity]


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
