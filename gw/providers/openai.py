"""OpenAI."""

from __future__ import annotations

from gw.providers import openai_like
from gw.providers.spec import ProviderSpec

SPEC = ProviderSpec(
    type="openai",
    location="cloud",
    base_url="https://api.openai.com/v1",
    dialect="openai",
    chat=openai_like.chat,
    transcribe=openai_like.transcribe,
    speak=openai_like.speak,
)
