"""Conditions for a gateway to be a member of a fleet."""

from __future__ import annotations

import socket
from importlib.util import find_spec

from gw.config.settings import Settings
from gw.errors import ConfigError, Problem, install_extra

FLEET_EXTRA = "fleet"


def check_fleet(settings: Settings) -> None:
    """Raise ConfigError, with the line of the setting, if the client of the fleet's server is not installed.

    Not checked when the file is read: most commands do without it.
    """
    if settings.fleet.valkey and find_spec("glide") is None:
        raise fleet_error(settings, "fleet.valkey needs a client that is not installed", install_extra(FLEET_EXTRA))


def member_name(settings: Settings) -> str:
    """Return the name of this gateway among those that share its limits."""
    return settings.fleet.instance or socket.gethostname()


def fleet_error(settings: Settings, what: str, hint: str = "") -> ConfigError:
    """Return the error of `fleet.valkey`, with its line."""
    file, line = "" if settings.path is None else str(settings.path), settings.lines.get(("fleet", "valkey"), 0)
    return ConfigError(problems=(Problem(what=what, hint=hint, file=file, line=line, where="fleet.valkey"),))

