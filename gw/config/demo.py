"""The configuration of `gw serve --demo`: no keys, no network, and a model that fails on purpose."""

from __future__ import annotations

from pathlib import Path

import attrs

from gw.config.parse import parse
from gw.config.settings import Settings

_DEMO = """
providers:
  sim:
models:
  stt: [sim/tone]
  llm: [sim/flaky, sim/echo, sim/scripted]
  tts: [sim/tone]
fallbacks:
  llm: [sim/flaky, sim/echo]
stacks:
  demo: {stt: sim/tone, llm: sim/echo, tts: sim/tone}
projects:
  default: {name: Default, default_stack: demo}
  demo:
    name: Demo
    description: A small budget that blocks requests
    daily_budget: 0.01
    budget_action: block
    default_stack: demo
    tags: [demo]
  demo-history:
    name: Sample history
    description: Made-up requests of the 13 days before this demo began
    daily_budget: 0.1
    budget_action: block
    default_stack: demo
    tags: [demo]
voices:
"""
_VOICES = (
    *("alloy", "ash", "ballad", "cedar", "coral", "echo", "fable"),
    *("marin", "nova", "onyx", "sage", "shimmer", "verse"),
)
"""OpenAI's voice names, which its clients require (openai-python 3.52.0)."""


def demo_settings(data_dir: Path) -> Settings:
    """Return the settings of the demo with its database in `data_dir`."""
    voices = "".join(f"  {name}: {{sim: tone}}\n" for name in _VOICES)
    settings = parse(_DEMO + voices, file="demo", env={}, data_dir=data_dir)
    return attrs.evolve(settings, path=None, secret_folder=data_dir)
