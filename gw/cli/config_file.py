"""The configuration of a command: the file that the user names, or the one found, with this process's environment."""

from __future__ import annotations

import os
from pathlib import Path

from gw.config.find import find, user_data_dir
from gw.config.parse import load_settings, parse
from gw.config.settings import Settings
from gw.errors import ConfigError


def load(path: Path | None) -> Settings:
    """Return the configuration. Raises ConfigError with every problem, or with the places searched."""
    return load_settings(path or find(os.environ), os.environ)


def defaults() -> Settings:
    """Return the defaults and what the environment sets, for a command that works through a gateway elsewhere."""
    return parse("providers: {}\nmodels: {}\n", file="the environment", env=os.environ, data_dir=user_data_dir())


def database_path() -> Path | None:
    """Return the configured database; None when no configuration is found or it is invalid here.

    A shell that only talks to the gateway often lacks the variables that its configuration needs.
    """
    try:
        return load(None).cost_tracking.db_path
    except ConfigError:
        return None
