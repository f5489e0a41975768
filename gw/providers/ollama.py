"""Ollama through its OpenAI-shaped face."""

from __future__ import annotations

from gw.providers import openai_like
from gw.providers.spec import ProviderSpec

SPEC = ProviderSpec(
    type="ollama",
    location="local",
    base_url="http://127.0.0.1:11434",
    api_path="/v1",
    dialect="openai",
    chat=openai_like.chat,
)
