"""The secrets of a configuration, which must not get into a log."""

from __future__ import annotations

from gw.config.settings import Settings
from gw.types.bank_address import BankAddress
from gw.types.secret import Secret


def secrets_of(settings: Settings) -> list[Secret]:
    """Return every secret of the configuration, so that none of them can get into the log."""
    provider_keys = [p.api_key for p in settings.providers.values()]
    project_keys = [key for p in settings.projects.values() for key in p.provider_keys.values()]
    otlp = settings.telemetry.otlp
    headers = [] if otlp is None else list(otlp.headers.values())
    fleet = [settings.fleet.valkey, settings.cost_tracking.database, *_password(settings)]
    alerts = [value for receiver in settings.alerts.receivers.values() for value in (receiver.url, receiver.secret)]
    callers = [settings.auth.admin_token, settings.auth.oidc.client_secret, settings.mcp_token, *(k.key for k in settings.auth.keys)]
    return [*callers, *fleet, *alerts, *headers, *provider_keys, *project_keys]


def _password(settings: Settings) -> list[Secret]:
    url = settings.fleet.valkey.reveal()
    return [BankAddress.parse(url).password] if url else []
