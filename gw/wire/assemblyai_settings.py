"""Settings of AssemblyAI's transcriptions, live and of recordings, to and from common terms.

Source: assemblyai 1.8.2 (`RawTranscriptionConfig`, `StreamingParameters`); the vendor's pages on redaction (November 2026).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from gw.types.speech_settings import DETECT
from gw.types.stt import ListenRequest, TranscribeRequest
from gw.wire import redaction
from gw.wire.json_codec import decode_client, present
from gw.wire.json_frames import json_frame
from gw.wire.query import int_field, is_true, language_tag, optional_pairs, own_settings

_REGIONS = frozenset({"en_au", "en_uk", "en_us", "de_ch"})  # languages whose region is accepted for recordings
_DEFAULT_MODELS = ("universal-3-5-pro", "universal-2")
"""`speech_models` of a request without them; the second has languages that the first lacks (assemblyai.com/docs/speech-to-text/models)."""
_LIVE_SERVED = frozenset({
    "speech_model", "encoding", "sample_rate", "format_turns", "formatted_finals", "language_code", "language_codes",
    "language_detection", "max_turn_silence", "keyterms_prompt", "prompt", "filter_profanity", "redact_pii",
    "redact_pii_policies", "speaker_labels", "continuous_partials",
})  # fmt: skip
"""Settings of a session that a request has in common terms, or that are those of every vendor."""
_LIVE_MEANINGFUL = frozenset({"llm_gateway", "webhook_url"})
"""Settings of a session that ask for something which is not in another vendor's answer."""
_SERVED = frozenset({
    "audio_url", "speech_model", "speech_models", "language_code", "language_codes", "language_detection", "punctuate",
    "format_text", "speaker_labels", "keyterms_prompt", "word_boost", "prompt", "filter_profanity", "redact_pii",
    "redact_pii_policies",
})  # fmt: skip
"""The same of a recording."""
_MEANINGFUL = frozenset({
    "audio_end_at", "audio_start_from", "auto_chapters", "auto_highlights", "content_safety", "custom_spelling", "dual_channel",
    "entity_detection", "iab_categories", "multichannel", "redact_pii_audio", "redact_pii_return_unredacted",
    "sentiment_analysis", "speech_threshold", "speech_understanding", "summarization",
})  # fmt: skip
_TEXTS = msgspec.json.Decoder(tuple[str, ...])


def spoken_language(language: str | None, regions: Collection[str] = _REGIONS) -> str | None:
    """Return the vendor's code: `en-GB` is `en_uk` if that is one of `regions`, else `en`. None if it is not a language."""
    bare, _, region = (language or "").lower().replace("-", "_").partition("_")
    regional = f"{bare}_{'uk' if region == 'gb' else region}"
    if regional in regions:
        return regional
    return bare if len(bare) in (2, 3) and bare.isascii() and bare.isalpha() else None


# ---- client


def live_fields(request: ListenRequest) -> list[tuple[str, str]]:
    """Return the query fields of a session for a caller of another protocol."""
    language = None if request.language == DETECT else spoken_language(request.language, ())
    return optional_pairs(
        format_turns=True,
        language_codes=json_frame([language]) if language else None,
        language_detection=request.language == DETECT,
        max_turn_silence=request.endpointing_ms,
        keyterms_prompt=json_frame(request.keyterms) if request.keyterms else None,
        prompt=request.prompt,
        speaker_labels=request.diarize,
        filter_profanity=request.profanity_filter,
        redact_pii=bool(request.redact),
        redact_pii_policies=json_frame(redaction.to_assemblyai(request.redact)) if request.redact else None,
    )


def job_members(request: TranscribeRequest) -> dict[str, Any]:
    """Return the members of a recording's job for a caller of another protocol."""
    language = spoken_language(request.language)
    members = present(
        language_code=language, language_detection=None if language else True, speaker_labels=request.diarize or None,
        keyterms_prompt=request.keyterms or None, prompt=request.prompt, filter_profanity=request.profanity_filter or None,
    )
    if request.redact:
        members |= {"redact_pii": True, "redact_pii_policies": redaction.to_assemblyai(request.redact)}
    return members


# ---- server


def of_session(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Return the settings in a query as arguments of a request. Raises ClientProtocolError, with `param`."""
    fields = dict(pairs)
    languages = _texts(fields, "language_codes")
    if not languages and (older := fields.get("language_code")):
        languages = (older,)
    detect = is_true(fields.get("language_detection")) or len(languages) > 1
    policies = _texts(fields, "redact_pii_policies") or (redaction.ALL,)
    needs_own, ignorable = own_settings(pairs, _LIVE_SERVED, _LIVE_MEANINGFUL)
    return {
        "language": language_tag(languages[0]) if len(languages) == 1 else DETECT if detect else None,
        "keyterms": _texts(fields, "keyterms_prompt"),
        "prompt": fields.get("prompt") or None,
        "endpointing_ms": int_field(fields, "max_turn_silence", 0) or None,
        "diarize": is_true(fields.get("speaker_labels")),
        "profanity_filter": is_true(fields.get("filter_profanity")),
        "redact": policies if is_true(fields.get("redact_pii")) else (),
        "needs_own": needs_own,
        "ignorable": ignorable,
    }


def _texts(fields: dict[str, str], name: str) -> tuple[str, ...]:
    return decode_client(_TEXTS, fields.get(name) or "[]", f"{name} must be a JSON array of strings", name)


class JobSettings(msgspec.Struct, gc=False):
    """Members of a recording's job that have a common meaning."""

    language_code: str | None = None
    language_codes: list[str] | None = None
    language_detection: bool | None = None
    speaker_labels: bool | None = None
    keyterms_prompt: list[str] | None = None
    word_boost: list[str] | None = None
    prompt: str | None = None
    filter_profanity: bool | None = None
    redact_pii: bool | None = None
    redact_pii_policies: list[str] | None = None

    def common(self, members: Iterable[tuple[str, str]]) -> dict[str, Any]:
        """Return the settings as arguments of a request, with the names of the other `members` (JSON)."""
        languages = self.language_codes or []
        language = self.language_code or (languages[0] if len(languages) == 1 else None)
        needs_own, ignorable = own_settings(members, _SERVED, _MEANINGFUL)
        return {
            "language": language_tag(language) or (DETECT if self.language_detection or languages else None),
            "diarize": bool(self.speaker_labels),
            "keyterms": tuple(self.keyterms_prompt or self.word_boost or ()),
            "prompt": self.prompt or None,
            "profanity_filter": bool(self.filter_profanity),
            "redact": tuple(self.redact_pii_policies or [redaction.ALL]) if self.redact_pii else (),
            "needs_own": needs_own,
            "ignorable": ignorable,
        }


def models(request: TranscribeRequest, model: str) -> list[str]:
    """Return the model, with those behind it that a caller of this dialect has named, or AssemblyAI's own list where it named none."""
    if request.dialect != "assemblyai":
        return [model]
    named = next((msgspec.json.decode(raw) for name, raw in request.fields if name == "speech_models"), None)
    if isinstance(named, list) and named[:1] == [model]:
        return named
    return [*_DEFAULT_MODELS] if not request.model and model == _DEFAULT_MODELS[0] else [model]
