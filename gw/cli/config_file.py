"""The configuration as commands take it: the file named by the user, or the one found; with this process's environment."""

from __future__ import annotations

import os
from pathlib import Path

from gw.config.find import find, user_data_dir
from gw.config.parse import load_settings, parse
from gw.config.settings import Settings
from gw.errors import ConfigError


def load(path: Path | None) -> Settings:
    """Raises ConfigError with every problem, or with the places searched."""
    return load_settings(path or find(os.environ), os.environ)


def without_a_file() -> Settings:
    """What the environment says and every default, for a command that works through a gateway somewhere."""
    return parse("providers: {}\nmodels: {}\n", file="the environment", env=os.environ, data_dir=user_data_dir())


def database_path() -> Path | None:
    """Where the configured gateway keeps its records; None when no file is found or the one found is unusable here.

    A shell that only talks to the gateway often lacks the variables its configuration needs.
    """
    try:
        return load(None).cost_tracking.db_path
    except ConfigError:
        return None
