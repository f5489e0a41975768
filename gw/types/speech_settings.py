"""Names of the settings of speech requests that keep their meaning when another vendor answers.

A provider declares which of them it can honour (`gw.providers.spec.ProviderSpec.honours`), and its codec writes them in the
vendor's own words. A candidate that cannot honour one that the caller needs is skipped (`gw.relay.honoured`).
"""

from __future__ import annotations

from typing import Final, Protocol

REDACT: Final = "redact"
NO_STORE: Final = "no_store"
PROFANITY_FILTER: Final = "profanity_filter"
DIARIZE: Final = "diarize"
LANGUAGE: Final = "language"
KEYTERMS: Final = "keyterms"
PROMPT: Final = "prompt"
WORD_TIMESTAMPS: Final = "word_timestamps"
SEGMENT_TIMESTAMPS: Final = "segment_timestamps"
RESPONSE_FORMAT: Final = "response_format"
TRANSLATE: Final = "translate"
TEMPERATURE: Final = "temperature"
INSTRUCTIONS: Final = "instructions"
SPEED: Final = "speed"
AUDIO_FORMAT: Final = "audio_format"
"""Format of the speech in an answer."""
VOICE: Final = "voice"

COMMON: Final = frozenset({
    REDACT, NO_STORE, PROFANITY_FILTER, DIARIZE, LANGUAGE, KEYTERMS, PROMPT, WORD_TIMESTAMPS, SEGMENT_TIMESTAMPS,
    RESPONSE_FORMAT, TRANSLATE, TEMPERATURE, INSTRUCTIONS, SPEED, AUDIO_FORMAT, VOICE,
})  # fmt: skip
OTHERS: Final = "*"
"""In a provider's table: the settings of its own dialect that the table does not name."""
DETECT: Final = "multi"
"""Language of a request whose caller leaves it to the vendor to detect the language."""

class RequestSettings(Protocol):
    """A request with settings, for recordings or live, of speech or text."""

    @property
    def dialect(self) -> str:
        """Dialect of the caller."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the settings without which the answer would mean something else."""

    @property
    def wishes(self) -> tuple[str, ...]:
        """Names of the settings that the record names if the vendor does without them."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """Names of the settings that no vendor gets, not even the caller's own."""


_WORDS: Final = {
    "openai": {
        KEYTERMS: "keywords", DIARIZE: "response_format", WORD_TIMESTAMPS: "timestamp_granularities[]",
        SEGMENT_TIMESTAMPS: "timestamp_granularities[]", AUDIO_FORMAT: "response_format",
    },
    "deepgram": {KEYTERMS: "keyterm", NO_STORE: "mip_opt_out", SEGMENT_TIMESTAMPS: "utterances", AUDIO_FORMAT: "encoding"},
    "assemblyai": {
        REDACT: "redact_pii", PROFANITY_FILTER: "filter_profanity", DIARIZE: "speaker_labels", LANGUAGE: "language_code",
        KEYTERMS: "keyterms_prompt",
    },
    "elevenlabs": {
        REDACT: "entity_redaction", NO_STORE: "enable_logging", LANGUAGE: "language_code",
        WORD_TIMESTAMPS: "timestamps_granularity", AUDIO_FORMAT: "output_format", VOICE: "voice_id",
    },
    "cartesia": {
        KEYTERMS: "keyterm", WORD_TIMESTAMPS: "timestamp_granularities[]", AUDIO_FORMAT: "output_format",
    },
}  # fmt: skip


def word_of(setting: str, dialect: str) -> str:
    """Return the name of a setting in a caller's dialect."""
    return _WORDS.get(dialect, {}).get(setting, setting)
