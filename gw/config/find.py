"""Search for the configuration file, and the folders of this user."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import platformdirs

from gw.errors import ConfigError

NAME = "gw.yaml"


def find_config(env: Mapping[str, str], cwd: Path, user_dir: Path, system_dir: Path) -> Path:
    """Return `$GW_CONFIG` when it is set, else the first `gw.yaml` in `cwd`, `user_dir` and `system_dir`.

    Raises ConfigError with the places searched.
    """
    explicit = env.get("GW_CONFIG", "")
    usual = [folder / NAME for folder in (cwd, user_dir, system_dir)]
    places = [cwd / Path(explicit).expanduser()] if explicit else usual
    for place in places:
        if place.is_file():
            return place
    note = " (from GW_CONFIG)" if explicit else ""
    raise ConfigError(searched=tuple(f"{place}{note}" for place in places))


def find(env: Mapping[str, str]) -> Path:
    """Search the folders of this user and system. Raises ConfigError."""
    return find_config(env, Path.cwd(), user_config_dir(), platformdirs.site_config_path("gw"))


def user_config_dir() -> Path:
    """Return the per-user configuration folder (also of the file `.secret`); it may not exist yet."""
    return platformdirs.user_config_path("gw")


def user_data_dir() -> Path:
    """Return the per-user data folder, the default place of the database; it may not exist yet."""
    return platformdirs.user_data_path("gw")
