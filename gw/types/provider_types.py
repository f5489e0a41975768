"""The provider types: where each runs, what it offers, and what only its configuration entries take.

Each type has a module `gw.providers.<type>` with a `SPEC`, or a preset (`gw.types.presets`). These facts stand below the
configuration, which must know them without importing network code.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from gw.types.ids import Location, Modality
from gw.types.presets import PRESETS


@attrs.frozen
class ProviderType:
    location: Location
    modalities: tuple[Modality, ...]
    options: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    """Keys of a provider entry that only this type takes."""
    tcp: bool = attrs.field(default=False, kw_only=True)
    """`base_url` may be `tcp://host:port`, a server of the Wyoming protocol."""
    default_models: Mapping[Modality, str] = attrs.field(factory=dict, kw_only=True)
    """The model that the vendor itself takes for a request without one, where its documentation names it."""
    own_models: bool = attrs.field(default=True, kw_only=True)
    """False for a type whose models are those of the configuration: other names of callers do not go there."""
    address: str = attrs.field(default="", kw_only=True)
    """Form of an address that each account has of its own, so that an entry needs `base_url`; "" for a type with a default."""
    key: str = attrs.field(default="", kw_only=True)
    """Environment variable that holds the key in the vendor's own documentation, for hints."""
    tells_slots: bool = attrs.field(default=False, kw_only=True)
    """The vendor's answers or refusals tell how many calls at once its account may have."""
    names_with_slash: bool = attrs.field(default=False, kw_only=True)
    """The vendor's own names have slashes (`meta-llama/llama-4-scout-17b-16e-instruct`)."""
    ended: str = attrs.field(default="", kw_only=True)
    """Day since which the vendor does not offer the service any more; "" while it does."""


SIM_FAULTS = ("reset", "malformed", "refused", "slow")
"""Values of the demo engine's option `fail_with` besides an HTTP status."""
_SIM_OPTIONS = (
    *("latency_ms", "token_ms", "fail_rate", "fail_with", "retry_after_s"),
    *("rate_limit", "refuse", "cut_after", "script"),
)

PROVIDER_TYPES: dict[str, ProviderType] = {
    "openai": ProviderType("cloud", ("stt", "llm", "tts")),
    "anthropic": ProviderType("cloud", ("llm",)),
    "groq": ProviderType("cloud", ("stt", "llm", "tts"), names_with_slash=True),
    # Its API reference of /v1/speak, and its page "Model Options" for /v1/listen: the defaults of `model`.
    "deepgram": ProviderType(
        "cloud", ("stt", "tts"), default_models={"stt": "base-general", "tts": "aura-asteria-en"}, tells_slots=True
    ),
    # It has no default: its SDK 4.2.0 declares `model_id` and `model` as required.
    "cartesia": ProviderType("cloud", ("stt", "tts"), tells_slots=True),
    # Its API reference of text to speech: the default of `model_id`. A transcription needs one (its SDK 2.78.0).
    "elevenlabs": ProviderType("cloud", ("stt", "tts"), default_models={"tts": "eleven_multilingual_v2"}, tells_slots=True),
    # Its page "Model selection" for recordings. A live session needs one there (its page "Universal Streaming") and gets the same here.
    "assemblyai": ProviderType("cloud", ("stt",), default_models={"stt": "universal-3-5-pro"}),
    "soniox": ProviderType("cloud", ("stt",), key="SONIOX_API_KEY"),
    # Its page "Models": the model of a request without one.
    "speechmatics": ProviderType("cloud", ("stt",), default_models={"stt": "standard"}, key="SPEECHMATICS_API_KEY"),
    # Its OpenAPI description: the default of `model`, of live sessions and of recordings.
    "gladia": ProviderType("cloud", ("stt",), default_models={"stt": "solaria-1"}, key="GLADIA_API_KEY"),
    "rime": ProviderType("cloud", ("tts",), key="RIME_API_KEY"),
    "inworld": ProviderType("cloud", ("tts",), key="INWORLD_API_KEY"),
    "aws_polly": ProviderType("cloud", ("tts",), address="https://polly.REGION.amazonaws.com", key="AWS_ACCESS_KEY_ID"),
    "aws_transcribe": ProviderType(
        "cloud", ("stt",), address="https://transcribestreaming.REGION.amazonaws.com:8443", key="AWS_ACCESS_KEY_ID"
    ),
    "azure_speech": ProviderType("cloud", ("stt", "tts"), address="https://REGION.api.cognitive.microsoft.com", key="AZURE_SPEECH_KEY"),
    "google_cloud": ProviderType("cloud", ("stt", "tts"), options=("project",), key="GOOGLE_API_KEY"),
    "minimax": ProviderType("cloud", ("tts",), key="MINIMAX_API_KEY"),
    # dev.hume.ai/intro, read on 2026-11-26: access to the speech API ends on that day.
    "hume": ProviderType("cloud", ("tts",), key="HUME_API_KEY", ended="2026-11-13"),
    "ollama": ProviderType("local", ("llm",), options=("api", "num_ctx", "keep_alive", "think")),
    "whisper": ProviderType("local", ("stt",), options=("model_path", "device", "compute_type"), tcp=True),
    "kokoro": ProviderType("local", ("tts",), options=("model_path", "voices_path", "device")),
    "piper": ProviderType("local", ("tts",), options=("model_path", "voices_path", "device"), tcp=True),
    **{
        name: ProviderType(
            preset.location, tuple(preset.sections), default_models=preset.default_models, address=preset.address,
            key=preset.key, names_with_slash=preset.names_with_slash,
        )
        for name, preset in PRESETS.items()
    },
    "sim": ProviderType("local", ("stt", "llm", "tts"), options=_SIM_OPTIONS, own_models=False),
}  # fmt: skip
"""A new provider type is one line here and its module, or a file in `gw/providers/presets`."""
