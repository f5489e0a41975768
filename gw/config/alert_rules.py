"""Rules for receivers of alerts: each needs an address, a secret if its messages are signed, and the library of its type."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from urllib.parse import urlsplit

from gw.config.alert_settings import AlertReceiver
from gw.config.settings import Settings
from gw.errors import ConfigError, Problem, install_extra

APPRISE_MODULE, ALERTS_EXTRA = "apprise", "alerts"


def faults(receiver: AlertReceiver) -> Iterator[tuple[str, str, str]]:
    """Yield what is wrong with a receiver: the setting, what it is (to be read after its name), and how to mend it."""
    url = receiver.url.reveal()
    if not url:
        yield "url", "is missing", "the address that messages are sent to"
    elif receiver.type == "apprise" and "://" not in url:
        yield "url", "is not an address of Apprise", "such as mailtos://user:password@example.com?to=ops@example.com"
    elif receiver.type != "apprise" and not _is_http(url):
        yield "url", "must be an https:// or http:// address", "of slack: the incoming webhook that Slack shows"
    if receiver.type == "webhook" and not receiver.secret:
        yield "secret", "is missing: messages to a webhook are signed", "make one with: echo whsec_$(openssl rand -base64 32)"
    if receiver.type != "webhook" and receiver.secret:
        yield "secret", f"is of no use for the type {receiver.type}", "remove it; only a webhook has one"


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and url.isascii() and url.isprintable()
    except ValueError:
        return False


def apprise_missing() -> str:
    """Return what to install for receivers of the type apprise; "" if it is installed."""
    return "" if find_spec(APPRISE_MODULE) is not None else install_extra(ALERTS_EXTRA)


def check_alerts(settings: Settings) -> None:
    """Raise ConfigError if a receiver needs a library that is not installed. Not looked for when the file is read."""
    for name, receiver in settings.alerts.receivers.items():
        if receiver.type == "apprise" and (hint := apprise_missing()):
            where, file = f"alerts.receivers.{name}", str(settings.path or "")
            line = settings.lines.get(("alerts", "receivers", name), 0)
            what = f"{where} needs a library that is not installed"
            problem = Problem(what=what, hint=hint, where=where, file=file, line=line, column=1)
            raise ConfigError(problems=(problem,))
