"""What the configuration may name: provider types, what they offer, and the options of their engines."""

from __future__ import annotations

from collections.abc import Mapping

from gw.types.ids import Location, Modality

PROVIDER_TYPES: Mapping[str, tuple[Location, tuple[Modality, ...]]] = {
    "openai": ("cloud", ("stt", "llm", "tts")),
    "anthropic": ("cloud", ("llm",)),
    "groq": ("cloud", ("stt", "llm", "tts")),
    "deepgram": ("cloud", ("stt", "tts")),
    "cartesia": ("cloud", ("stt", "tts")),
    "elevenlabs": ("cloud", ("stt", "tts")),
    "assemblyai": ("cloud", ("stt",)),
    "ollama": ("local", ("llm",)),
    "whisper": ("local", ("stt",)),
    "kokoro": ("local", ("tts",)),
    "piper": ("local", ("tts",)),
    "sim": ("local", ("stt", "llm", "tts")),
}
"""Type → where it runs, and its modalities."""

ENGINE_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "ollama": ("api", "num_ctx", "keep_alive", "think"),
    "whisper": ("model_path", "device", "compute_type"),
    "kokoro": ("model_path", "voices_path", "device"),
    "piper": ("model_path", "voices_path", "device"),
    "sim": (
        *("latency_ms", "token_ms", "fail_rate", "fail_with", "retry_after_s"),
        *("rate_limit", "refuse", "cut_after", "script"),
    ),
}
"""Type → keys of a provider entry that only this type takes."""

ON_BARE_CONNECTIONS = frozenset({"whisper", "piper"})
"""Types whose `base_url` may be `tcp://host:port`: servers of the Wyoming protocol."""

SIM_FAULTS = ("reset", "malformed", "refused", "slow")
"""What `fail_with` of the demo engine takes beside an HTTP status."""
