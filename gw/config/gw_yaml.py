"""The files of the configuration: where gw.yaml is searched, what `gw init` writes, and the commented example."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from gw.config.load import Path as KeyPath
from gw.config.load import load
from gw.errors import ConfigError

NAME = "gw.yaml"
_EXAMPLE = "gw.yaml.example"
_NAMED_ENTRIES = {"providers": 1, "models": 2, "stacks": 1, "routes": 2, "projects": 1, "voices": 1, "rate_limiting": 1, "shadow": 2}
"""Section → index of the part of a key's path that is a name chosen by the user."""


def find_config(env: Mapping[str, str], cwd: Path, user_dir: Path, system_dir: Path) -> Path:
    """Return `$GW_CONFIG`, else the first `gw.yaml` of these folders. Raises ConfigError with the places searched."""
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


def starter_text() -> str:
    """Return a short configuration that works with `OPENAI_API_KEY` alone."""
    return Path(__file__).with_name("starter.yaml").read_text(encoding="utf-8")


def example_text() -> str:
    """Return the commented file with every setting, from the installed package or the root of a source checkout."""
    packaged = Path(__file__).with_name(_EXAMPLE)
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    return Path(__file__).parents[2].joinpath(_EXAMPLE).read_text(encoding="utf-8")


def key_names(text: str, *, file: str) -> list[str]:
    """Return the keys of a file, sorted, with chosen names as `*`: `providers.*.api_key`. Raises ConfigError."""
    return sorted({general_name(path) for path in load(text, file=file, env=None).key_positions})


def general_name(path: KeyPath) -> str:
    """Return a path as dotted text, with chosen names as `*`."""
    parts = ["*" if isinstance(part, int) else part for part in path]
    if parts[0] == "rate_limits":
        parts[0] = "rate_limiting"
    named = _NAMED_ENTRIES.get(parts[0])
    if named is not None and len(parts) > named:
        parts[named] = "*"
    if parts[0] == "voices":
        parts[1:] = ["*"] * (len(parts) - 1)
    elif "script" in parts[:-1]:
        parts[-1] = "*"
    elif parts[0] == "models" and parts[3:4] == ["price"]:
        parts[4:] = _within_price(parts[4:])
    elif parts[:2] == ["alerts", "receivers"]:
        parts[2:3] = ["*"] * len(parts[2:3])
    elif parts[:3] == ["telemetry", "otlp", "headers"]:
        parts[3:4] = ["*"] * len(parts[3:4])
    elif parts[0] == "projects" and parts[2:3] == ["providers"]:
        parts[3:] = ["*"] * (len(parts) - 3)
    return ".".join(parts)


def _within_price(parts: list[str]) -> list[str]:
    """Return a path within a price, or a list of prices; the rates of a tier and of a step are those of any price."""
    parts = parts[1:] if parts[:1] == ["*"] else parts
    match parts[:1]:
        case ["tiers" | "regions" | "addons"] if len(parts) > 1:
            return [parts[0], "*"]
        case ["above"]:
            return parts[:1]
    return parts


def diff_against_example(text: str, *, file: str = "gw.yaml") -> str:
    """Return a unified diff of the keys of `text` and the example: `-` only this file has, `+` it could have.

    The diff is "" when the keys are the same. Raises ConfigError when `text` is not YAML.
    """
    own = key_names(text, file=file)
    example = key_names(example_text(), file=_EXAMPLE)
    return "".join(f"{line}\n" for line in difflib.unified_diff(own, example, file, _EXAMPLE, lineterm="", n=0))
