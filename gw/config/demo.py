"""The configuration of `gw serve --demo`: no keys, no network, and a model that fails on purpose."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import attrs

from gw.config.parse import parse
from gw.config.settings import Settings


def demo_settings(data_dir: Path) -> Settings:
    """Return the settings of the demo with its database in `data_dir`."""
    text = resources.files("gw.config").joinpath("demo.yaml").read_text(encoding="utf-8")
    settings = parse(text, file="demo", env={}, data_dir=data_dir)
    return attrs.evolve(settings, path=None, secret_folder=data_dir)
