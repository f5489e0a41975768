"""Settings of ElevenLabs' transcriptions, live and of recordings, to and from common terms.

Source: elevenlabs 2.78.0 (`speech_to_text.convert`, `RealtimeAudioOptions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from gw.errors import ClientProtocolError
from gw.types.speech_settings import DETECT
from gw.types.stt import ListenRequest, TranscribeRequest
from gw.wire import redaction
from gw.wire.json_codec import BAD_JSON
from gw.wire.query import OFF, language_tag, optional_pairs, own_settings

_MAX_KEYTERM_WORDS = 5
_NOT_IN_KEYTERMS = frozenset("<>{}[]\\")
URLS = ("source_url", "cloud_storage_url")
"""Fields for the address of a recording; the second is the older name."""
_SERVED = frozenset({
    "model_id", "audio_format", "language_code", "timestamps_granularity", "diarize", "keyterms", "temperature", "file_format",
    "entity_redaction", "entity_detection", "enable_logging", "tag_audio_events", "include_timestamps", "commit_strategy",
    "include_language_detection", *URLS,
})  # fmt: skip
"""Settings that a request has in common terms, or that are those of every vendor."""
_MEANINGFUL = frozenset({
    "additional_formats", "detect_speaker_roles", "transcript_edit", "use_multi_channel", "use_speaker_library",
})  # fmt: skip
"""Settings that ask for something which is not in another vendor's answer."""


# ---- client


def takes(keyterms: Sequence[str], *, live: bool) -> bool:
    """Return whether the vendor accepts a list of key terms; it refuses a request for one that it does not."""
    count, characters = (50, 20) if live else (1_000, 50)
    return len(keyterms) <= count and all(
        len(term) <= characters and len(term.split()) <= _MAX_KEYTERM_WORDS and _NOT_IN_KEYTERMS.isdisjoint(term)
        for term in keyterms
    )


def language_code(language: str | None) -> str | None:
    """Return a language without its region, which the vendor refuses; None to have it detected."""
    return None if language == DETECT else (language or "").partition("-")[0].lower() or None


def form_fields(request: TranscribeRequest) -> list[tuple[str, str]]:
    """Return the fields of a recording's form for a caller of another protocol."""
    entities = redaction.to_elevenlabs(request.redact) or ()
    as_json = msgspec.json.encode(entities).decode() if entities else None
    fields = optional_pairs(
        language_code=language_code(request.language),
        temperature=None if request.temperature is None else f"{request.temperature:g}",
        timestamps_granularity="word" if request.timestamps or request.diarize else "none",
        tag_audio_events="false",
        diarize=request.diarize,
        entity_detection=as_json,
        entity_redaction=as_json,
    )
    return fields + [("keyterms", term) for term in request.keyterms]


def live_fields(request: ListenRequest) -> list[tuple[str, str]]:
    """Return the query fields of a session for a caller of another protocol."""
    silence_ms, language = request.endpointing_ms, language_code(request.language)
    pairs = optional_pairs(
        commit_strategy="vad",
        language_code=language,
        include_language_detection=language is None,
        enable_logging="false" if request.no_store else None,
        vad_silence_threshold_secs=None if silence_ms is None else f"{min(3.0, max(0.3, silence_ms / 1000)):g}",
    )
    return pairs + [("keyterms", term) for term in request.keyterms]


# ---- server


def to_common(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Return the settings as arguments of a request, with the names of the others."""
    named = dict(pairs)
    redact = _redacted_entities(pairs)
    needs_own, ignorable = own_settings(pairs, _SERVED, _MEANINGFUL)
    if not redact and named.get("entity_detection", "").lower() not in OFF:
        needs_own += ("entity_detection",)
    return {
        "language": language_tag(named.get("language_code")),
        "keyterms": tuple(value for name, value in pairs if name == "keyterms"),
        "diarize": named.get("diarize", "").lower() == "true",
        "redact": redact,
        "no_store": named.get("enable_logging", "").lower() == "false",
        "needs_own": needs_own,
        "ignorable": ignorable,
    }


def of_recording(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Return the settings of a recording like `to_common`. Raises ClientProtocolError, with `param`."""
    named, common = dict(pairs), to_common(pairs)
    if named.get("webhook", "").lower() in ("true", "1"):
        # ElevenLabs sends the transcript to addresses of its workspace's settings (elevenlabs 2.78.0, `speech_to_text/client.py`).
        what = "webhook is not supported, because this gateway has no addresses of webhooks: the response has the transcript"
        raise ClientProtocolError(what=what, param="webhook")
    granularity = named.get("timestamps_granularity")
    if granularity == "character":
        common["needs_own"] += ("timestamps_granularity=character",)
    return common | {
        "temperature": _number(named.get("temperature")),
        "timestamps": frozenset({"word"} if granularity != "none" else ()),
        "timestamps_required": frozenset({"word"} if granularity in ("word", "character") else ()),
    }


def _redacted_entities(pairs: list[tuple[str, str]]) -> tuple[str, ...]:
    """Return the values of `entity_redaction`, each a word, a JSON string or a JSON array of them."""
    words: list[str] = []
    for value in [value for name, value in pairs if name == "entity_redaction" and value.lower() not in OFF]:
        try:
            decoded = msgspec.json.decode(value, type=str | list[str])
        except BAD_JSON:
            decoded = value
        words += [decoded] if isinstance(decoded, str) else decoded
    return tuple(dict.fromkeys(words))


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise ClientProtocolError(what="temperature must be a number", param="temperature") from None
