"""Groq: OpenAI's dialect under /openai/v1; short audio is billed as ten seconds."""

from __future__ import annotations

from gw.providers import openai_like
from gw.providers.spec import ProviderSpec

SPEC = ProviderSpec(
    type="groq",
    location="cloud",
    base_url="https://api.groq.com/openai/v1",
    dialect="openai",
    chat=openai_like.chat,
    transcribe=openai_like.transcribe,
    speak=openai_like.speak,
    rounds_audio_up_to_s=10.0,
    speak_formats=frozenset({"wav", "mp3", "flac", "ogg", "mulaw"}),
)
