"""Kokoro-FastAPI: local text-to-speech of OpenAI's shape."""

from __future__ import annotations

from gw.providers import openai_like
from gw.providers.spec import ProviderSpec

SPEC = ProviderSpec(
    type="kokoro",
    location="local",
    base_url="http://127.0.0.1:8880/v1",
    dialect="openai",
    speak=openai_like.speak,
)
