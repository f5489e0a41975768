"""Settings of Deepgram's transcriptions, live and of recordings, to and from common terms.

Source: deepgram-sdk 7.17.0; the vendor's pages on redaction, key terms and the data it keeps (November 2026): a request with
`mip_opt_out` is kept only while it is processed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gw.types.speech_settings import DETECT
from gw.types.stt import ListenRequest, TranscribeRequest
from gw.wire import redaction
from gw.wire.query import is_true, optional_pairs, own_settings

_SERVED = frozenset({
    "model", "encoding", "sample_rate", "channels", "language", "detect_language", "language_hint", "punctuate",
    "smart_format", "interim_results", "endpointing", "utterance_end_ms", "vad_events", "keyterm", "keywords", "diarize",
    "diarize_model", "redact", "mip_opt_out", "profanity_filter", "utterances",
})  # fmt: skip
"""Settings that a request has in common terms, or that are those of every vendor."""
_MEANINGFUL = frozenset({
    "summarize", "topics", "custom_topic", "sentiment", "intents", "custom_intent", "detect_entities", "search", "replace",
    "paragraphs", "multichannel",
})  # fmt: skip
"""Settings that ask for something which is not in another vendor's answer."""


# ---- client


def keyterm_field(model: str) -> str | None:
    """Return the field for key terms: models before Nova-3 know `keywords` instead, Whisper neither."""
    if model.startswith(("nova-3", "flux-")):
        return "keyterm"
    return None if model.startswith("whisper") else "keywords"


def for_model(pairs: list[tuple[str, str]], model: str) -> list[tuple[str, str]]:
    """Return a caller's own settings with the key terms under the name that this model knows."""
    field = keyterm_field(model)
    if field == "keyterm":
        return [(field, value.partition(":")[0]) if name == "keywords" else (name, value) for name, value in pairs]
    return [(field or name, value) if name == "keyterm" else (name, value) for name, value in pairs]


def from_common(request: TranscribeRequest | ListenRequest, model: str) -> list[tuple[str, str]]:
    """Return the settings of a caller of another protocol in Deepgram's words, those of Flux where the model is one."""
    turns, live = model.startswith("flux-"), isinstance(request, ListenRequest)
    pairs = optional_pairs(diarize=request.diarize and not turns)
    pairs += [(keyterm_field(model) or "keyterm", term) for term in request.keyterms]
    if request.dialect == "deepgram":  # these are the same in both live protocols
        return pairs
    values = redaction.to_deepgram(request.redact, live=live, by_turns=turns, language=request.language)
    pairs += [("redact", value) for value in values or ()]
    return pairs + optional_pairs(mip_opt_out=request.no_store, profanity_filter=request.profanity_filter)


# ---- server


def language_of(fields: Mapping[str, str]) -> str | None:
    """Return the language that a query names, DETECT for one that is to be detected."""
    return fields.get("language") or (DETECT if is_true(fields.get("detect_language")) else None)


def keyterms_of(pairs: list[tuple[str, str]]) -> tuple[str, ...]:
    """Return `keyterm`, and the `keywords` of older models without their weight (`word:2`)."""
    terms = (v if name == "keyterm" else v.partition(":")[0] for name, v in pairs if name in ("keyterm", "keywords"))
    return tuple(filter(None, terms))


def to_common(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Return the settings that a request has in common terms, as arguments of it, and the names of the others."""
    fields = dict(pairs)
    needs_own, ignorable = own_settings(pairs, _SERVED, _MEANINGFUL)
    return {
        "keyterms": keyterms_of(pairs),
        "diarize": is_true(fields.get("diarize")) or "diarize_model" in fields,
        "redact": redaction.from_deepgram(value for name, value in pairs if name == "redact"),
        "no_store": is_true(fields.get("mip_opt_out")),
        "profanity_filter": is_true(fields.get("profanity_filter")),
        "needs_own": needs_own,
        "ignorable": ignorable,
    }
