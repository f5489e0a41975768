"""What a request used, what it cost, and the record kept of it.

These are msgspec structs, not attrs classes: they are made and encoded on the hot path.
Money is an integer number of nano-USD; floats appear only in JSON output.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from gw.types.ids import Modality

NANO = 1_000_000_000
"""Nano-USD in one USD."""

UsageSource = Literal["vendor", "measured", "estimated"]
Status = Literal["success", "error", "fallback", "cancelled"]
Unit = Literal["tokens", "audio_seconds", "characters"]
UNIT_OF: dict[Modality, Unit] = {"stt": "audio_seconds", "llm": "tokens", "tts": "characters"}


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Units used. Cached tokens are inside `input_tokens`; audio tokens are inside input and output tokens."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    input_audio_tokens: int = 0
    output_audio_tokens: int = 0
    audio_seconds: float = 0.0
    """Speech-to-text: audio heard. Text-to-speech: audio made, where it can be told."""
    characters: int = 0
    """Unicode code points sent to a text-to-speech vendor."""
    source: UsageSource = "measured"


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """`nusd` is None for an unpriced model. `source`: `table:<file>@<valid-from>`, `config`, `vendor`, `local`, `unpriced`."""

    nusd: int | None
    source: str


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One upstream call (or one candidate that was passed over). Times in ms; `started_ms` counts from the request's start."""

    model_id: str
    outcome: str
    started_ms: float
    duration_ms: float
    ttfb_ms: float | None = None
    error_code: str | None = None
    upstream_status: int | None = None
    audio_seconds: float | None = None
    """This vendor's part of the request's units, where more than one may have had a part."""
    characters: int | None = None
    cost_nusd: int | None = None


class HeardSpeech(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a live transcription did in one turn of the many it hears. Times in Unix seconds."""

    request_id: str
    """Of the session, whose own record comes when it ends."""
    model_id: str
    ended_at: float
    """The speaker stopped."""
    final_at: float
    """The last final transcript came."""
    audio_seconds: float
    """Of speech that the transcripts cover."""
    cost_nusd: int | None = 0
    """Of that speech; what the session costs is on its own record."""

    def then(self, later: HeardSpeech) -> HeardSpeech:
        """Both as one: what was waited for is the later one."""
        known = self.cost_nusd is not None and later.cost_nusd is not None
        return msgspec.structs.replace(
            later,
            audio_seconds=self.audio_seconds + later.audio_seconds,
            cost_nusd=(self.cost_nusd or 0) + (later.cost_nusd or 0) if known else None,
        )


class RequestRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The one record of a request. `id` is the request id the caller saw in X-Request-Id."""

    id: str
    timestamp: float
    """Unix seconds at which the request began."""
    project: str
    modality: Modality
    model_id: str
    """Who answered; for a failure the last candidate tried, else the model asked for."""
    provider: str
    requested_model: str
    status: Status
    total_latency_ms: float
    ttfb_ms: float | None = None
    """Request's start to the first content event of the upstream that answered."""
    gateway_ms: float | None = None
    """Time spent in the gateway itself: before the first upstream call, and between the last upstream event and the record."""
    cost_nusd: int | None = 0
    pricing_source: str = ""
    wasted_units: float = 0
    """Of the record's unit (`UNIT_OF`): what was paid for and reached nobody; see `gw.relay.waste`."""
    wasted_nusd: int | None = 0
    """What that cost, a part of `cost_nusd`; None where no price is known."""
    usage: Usage = Usage()
    measured: Usage | None = None
    """Our own count, where `usage` is the vendor's."""
    attempts: tuple[AttemptRecord, ...] = ()
    fallback_from: str | None = None
    error_code: str | None = None
    stream: bool = False
    session_id: str | None = None
    turn_id: str | None = None
    key_id: str | None = None
    endpoint: str = ""
    heard: tuple[HeardSpeech, ...] = ()
    """What live transcriptions did in this request's turn."""
    earlier: tuple[str, ...] = ()
    """Requests that turned out to be of this turn: their records get its ids, unless they have some. Not kept itself."""


class Intent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Written to the journal before an upstream call, so that a killed process leaves no call unaccounted for."""

    id: str
    attempt: int
    """Counts from 0 within the request."""
    timestamp: float
    project: str
    modality: Modality
    model_id: str
    requested_model: str
    estimate: Usage = Usage(source="estimated")
    estimate_nusd: int | None = 0
    stream: bool = False
    session_id: str | None = None
    turn_id: str | None = None
    key_id: str | None = None
    endpoint: str = ""
