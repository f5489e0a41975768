from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest
import structlog

import gw
from gw.config.parse import parse
from gw.config.settings import Settings

YAML = """
providers:
  sim: {}
  down: {type: sim, fail_with: 503, fail_rate: 1}
  busy: {type: sim, fail_with: 429, fail_rate: 1}
  slow: {type: sim, token_ms: 600000}
  alone: {type: ollama, base_url: "http://127.0.0.1:1"}
models:
  stt: [sim/tone]
  llm: [sim/echo, down/echo, busy/echo, slow/echo, alone/llama]
  tts: [sim/tone]
stacks:
  demo: {stt: sim/tone, llm: sim/echo, tts: sim/tone}
projects:
  default: {default_stack: demo}
  poor: {daily_budget: 0.000001, budget_action: block, default_stack: demo}
routing: {first_event_s: {stt: 60, llm: 60, tts: 60}, idle_s: 60}
"""
CHAIN = "fallbacks: {llm: [sim/echo]}\n"
HELLO = [{"role": "user", "content": "Hello you there"}]


@pytest.fixture(autouse=True)
def _logs_are_put_back() -> Iterator[None]:
    """The library sends gw's logs to `logging` when nobody else has decided."""
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()


@pytest.fixture
def settings(tmp_path: Path) -> Callable[..., Settings]:
    def parsed(text: str = YAML) -> Settings:
        settings_ = parse(text, file="gw.yaml", env={}, data_dir=tmp_path)
        return attrs.evolve(settings_, secret_folder=tmp_path / "config")

    return parsed


@pytest.fixture
def gateway(settings) -> Iterator[gw.Gateway]:
    with gw.Gateway(settings()) as opened:
        yield opened
