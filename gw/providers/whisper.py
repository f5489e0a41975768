"""A local speech-to-text server of OpenAI's shape (speaches, whisper.cpp with --inference-path)."""

from __future__ import annotations

from gw.providers import openai_like
from gw.providers.spec import ProviderSpec

SPEC = ProviderSpec(
    type="whisper",
    location="local",
    base_url="http://127.0.0.1:8000/v1",
    dialect="openai",
    transcribe=openai_like.transcribe,
)
