"""Conditions for records to be kept in PostgreSQL."""

from __future__ import annotations

from importlib.util import find_spec

from gw.config.fleet_rules import FLEET_EXTRA
from gw.config.settings import Settings
from gw.errors import ConfigError, Problem, install_extra

POSTGRES = ("postgresql://", "postgres://")
"""Beginnings of an address."""


def check_client() -> str | None:
    """Return what is missing to speak to PostgreSQL, None if nothing is."""
    return None if find_spec("psycopg") is not None else f"needs a client that is not installed; {install_extra(FLEET_EXTRA)}"


def check_database(settings: Settings) -> None:
    """Raise ConfigError, with the line of the setting, if the client of PostgreSQL is not installed.

    Not checked when the file is read: most commands do without it.
    """
    if settings.cost_tracking.database and find_spec("psycopg") is None:
        what = "cost_tracking.database needs a client that is not installed"
        raise database_error(settings, what, install_extra(FLEET_EXTRA))


def database_error(settings: Settings, what: str, hint: str = "") -> ConfigError:
    """Return the error of `cost_tracking.database`, with its line."""
    file, line = "" if settings.path is None else str(settings.path), settings.lines.get(("cost_tracking", "database"), 0)
    return ConfigError(problems=(Problem(what=what, hint=hint, file=file, line=line, where="cost_tracking.database"),))
