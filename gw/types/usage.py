"""Usage, cost and records of requests.

These are msgspec structs, not attrs classes, since they are made and encoded on the hot path.
Money is an integer number of nano-USD; floats appear only in JSON output.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import msgspec

from gw.types.captured import CaptureState
from gw.types.ids import Modality, TraceContext, split_model_id

NANO = 1_000_000_000  # nano-USD in one USD
BASE_RATE = "base rate"
"""Words in the source of a cost whose rate ignores something that the request used."""

UsageSource = Literal["vendor", "measured", "estimated"]
Status = Literal["success", "error", "fallback", "cancelled"]
CacheUse = Literal["", "hit", "miss"]
Unit = Literal["tokens", "audio_seconds", "characters"]
UNIT_OF: dict[Modality, Unit] = {"stt": "audio_seconds", "llm": "tokens", "tts": "characters"}


class Dimensions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts that the price of a usage depends on beside its units, as far as the vendor or the request names them."""

    tier: str = ""
    """Service tier that served the request, such as `flex` or `priority`; "" = the vendor's standard."""
    region: str = ""
    """Region to which the processing was restricted, such as `us`; "" = none."""
    addons: tuple[str, ...] = ()
    """Options that the vendor bills on top, such as `keyterm` or `diarize`, in alphabetical order."""
    searches: int = 0
    """Web searches that the vendor made for the answer."""
    text_messages: int = 0
    """Messages of text in a conversation that the vendor bills one by one."""
    cache_write_long_tokens: int = 0
    """Part of the `cache_write_tokens` that stay in the vendor's cache for longer than usual (Anthropic: one hour)."""
    cached_audio_tokens: int = 0
    """Part of the `cached_input_tokens` that is audio; they are among the `input_audio_tokens`, too."""
    image_tokens: int = 0
    """Part of the `input_tokens` that is images, where the vendor bills them apart."""
    cached_image_tokens: int = 0
    """Part of the `cached_input_tokens` that is images."""

    def __add__(self, other: Dimensions) -> Dimensions:
        if self is NO_DIMENSIONS or other is NO_DIMENSIONS:
            return other if self is NO_DIMENSIONS else self
        return Dimensions(
            tier=self.tier or other.tier,
            region=self.region or other.region,
            addons=tuple(sorted({*self.addons, *other.addons})),
            searches=self.searches + other.searches,
            text_messages=self.text_messages + other.text_messages,
            cache_write_long_tokens=self.cache_write_long_tokens + other.cache_write_long_tokens,
            cached_audio_tokens=self.cached_audio_tokens + other.cached_audio_tokens,
            image_tokens=self.image_tokens + other.image_tokens,
            cached_image_tokens=self.cached_image_tokens + other.cached_image_tokens,
        )


NO_DIMENSIONS = Dimensions()


class VendorFigure(msgspec.Struct, frozen=True, kw_only=True):
    """The amount that the vendor says it bills, in its own unit (`credits`, `characters`): kept beside our own count."""

    amount: float
    unit: str


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Units used. `input_tokens` include cached tokens; input and output tokens include audio tokens."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int | None = None
    """Part of the output tokens that the model spent before its answer; None = the vendor does not count them."""
    input_audio_tokens: int = 0
    output_audio_tokens: int = 0
    audio_seconds: float = 0.0
    """Speech-to-text: audio transcribed. Text-to-speech: audio made, if its duration is known. A conversation whose vendor bills
    its duration: that."""
    characters: int = 0
    """Unicode code points sent to a text-to-speech vendor."""
    source: UsageSource = "measured"
    dimensions: Dimensions = NO_DIMENSIONS
    vendor_figure: VendorFigure | None = None

    def with_addons(self, addons: tuple[str, ...]) -> Usage:
        """Return this usage of a request that had such options."""
        if not addons:
            return self
        return msgspec.structs.replace(self, dimensions=self.dimensions + Dimensions(addons=addons))

    def times(self, channels: int) -> Usage:
        """Return the usage of audio of which each channel is billed for its whole duration."""
        return self if channels == 1 else msgspec.structs.replace(self, audio_seconds=self.audio_seconds * channels)

    def in_region(self, region: str) -> Usage:
        """Return this usage of a request that was processed there, unless it names another region itself."""
        if self.dimensions.region:
            return self
        return msgspec.structs.replace(self, dimensions=self.dimensions + Dimensions(region=region))


COUNTERS = tuple(
    name for name in Usage.__struct_fields__ if name not in ("reasoning_tokens", "source", "dimensions", "vendor_figure")
)
"""Fields of a usage that count units; `Price` has a rate for each. Reasoning is billed as output."""


def has_units(usage: Usage) -> bool:
    return any(getattr(usage, name) for name in COUNTERS)


def total_usage(usages: Collection[Usage], source: UsageSource) -> Usage:
    """Add usages up. Figures of vendors in different units have no sum."""
    figures = [usage.vendor_figure for usage in usages if usage.vendor_figure is not None]
    figure = None
    if figures and len({figure.unit for figure in figures}) == 1:
        figure = VendorFigure(amount=sum(figure.amount for figure in figures), unit=figures[0].unit)
    return Usage(
        **{name: sum(getattr(usage, name) for usage in usages) for name in COUNTERS},
        source=source,
        dimensions=sum((usage.dimensions for usage in usages), NO_DIMENSIONS),
        vendor_figure=figure,
    )


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Unpriced: None. `source`: `table:<file>@<valid-from>`, `config`, `vendor`, `local` or `unpriced`.

    A source that ends with `(base rate: …)` names what the request used and the rate does not take into account.
    """

    nusd: int | None
    source: str


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An upstream call, or a candidate that was passed over. `started_ms` counts from the request's start.

    After several attempts, each vendor that may charge has its own part of the request's units and cost, with a
    `pricing_source`. The parts add up to the record's cost. A single attempt has no part: the record's figures are its.
    """

    model_id: str
    outcome: str
    started_ms: float
    duration_ms: float
    provider: str = ""
    """Id of the provider, where the model's id begins with another one."""
    ttfb_ms: float | None = None
    error_code: str | None = None
    upstream_status: int | None = None
    detail: str = ""
    """Why a candidate was skipped, or which limit of the gateway refused it."""
    ignored_settings: tuple[str, ...] = ()
    """Settings that this vendor did without, in the words of the caller's dialect."""
    voice: str | None = None
    """Voice that was requested from this vendor, "" for its own default; None = the one that the caller named."""
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    audio_seconds: float | None = None
    characters: int | None = None
    text_characters: int | None = None
    """Characters of the caller's text that this vendor was sent, where pronunciations changed it; `characters` are those sent."""
    cost_nusd: int | None = None
    pricing_source: str = ""
    estimated_nusd: int = 0
    wasted_nusd: int | None = 0
    hedges: bool = False
    """Started beside another attempt that was slow."""
    cache: CacheUse = ""
    """Whether the phrase cache had the speech, and no vendor was called; "" where it was not asked."""
    saved_nusd: int = 0
    """Price of the vendor for a hit."""
    route: str = ""
    """Route that chose it for the request, "" without one."""
    routing: str = ""
    """Why the route chose it, in words."""
    lost_s: float | None = None
    """Speech that this vendor did not get although no transcript covers it: it had left the bounded buffer."""

    @property
    def provider_id(self) -> str:
        return self.provider or split_model_id(self.model_id)[0]


class HeardSpeech(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Part of a live transcription in one of its turns. Times in Unix seconds."""

    request_id: str
    """Id of the session, whose own record follows when it ends."""
    model_id: str
    ended_at: float
    """End of the speech."""
    final_at: float
    """Time of the last final transcript."""
    audio_seconds: float
    """Speech that the transcripts cover."""
    cost_nusd: int | None = 0
    """Cost of that speech; the session's cost is on its own record."""

    def then(self, later: HeardSpeech) -> HeardSpeech:
        """Merge with a later part, whose times count."""
        known = self.cost_nusd is not None and later.cost_nusd is not None
        return msgspec.structs.replace(
            later,
            audio_seconds=self.audio_seconds + later.audio_seconds,
            cost_nusd=(self.cost_nusd or 0) + (later.cost_nusd or 0) if known else None,
        )


class _RequestFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a request that its intents and its record both have. `id` is the caller's X-Request-Id."""

    id: str
    timestamp: float
    """Unix seconds at which the request began."""
    project: str
    modality: Modality
    model_id: str
    requested_model: str
    stream: bool = False
    session_id: str | None = None
    turn_id: str | None = None
    key_id: str | None = None
    endpoint: str = ""


class RequestRecord(_RequestFacts, frozen=True, kw_only=True):
    """The record of a request. `model_id` answered it; for a failure the last candidate tried, else the requested one."""

    provider: str
    status: Status
    total_latency_ms: float
    ttfb_ms: float | None = None
    """From the request's start to the first content event of the upstream that answered."""
    gateway_ms: float | None = None
    """Time spent in the gateway: before the first upstream call, and between the last upstream event and the record."""
    cost_nusd: int | None = 0
    """Sum of the known costs of all vendors; None where none is known."""
    pricing_source: str = ""
    estimated_nusd: int = 0
    """Amount that counts against the budget for the parts of unknown cost, beside `cost_nusd`."""
    wasted_units: float = 0
    """Units (`UNIT_OF`) that were paid for and reached nobody; see `gw.relay.waste`."""
    wasted_nusd: int | None = 0
    """Their cost, a part of `cost_nusd`; None where the price is unknown."""
    usage: Usage = Usage()
    measured: Usage | None = None
    """Our own count, where `usage` is the vendor's."""
    attempts: tuple[AttemptRecord, ...] = ()
    fallback_from: str | None = None
    error_code: str | None = None
    refused: bool = False
    """The error is no provider's: a budget or a limit refused the request, or the request itself is wrong."""
    heard: tuple[HeardSpeech, ...] = ()
    """Parts of live transcriptions in this request's turn."""
    earlier: tuple[str, ...] = ()
    """Earlier requests found to be of this turn: their records get its ids. Not stored itself."""
    captured: CaptureState | None = None
    """Fate of its words and sound, where the project has `capture`; None = they were not kept."""
    trace: TraceContext | None = None
    """Span of the caller that the request belongs to. Not stored itself; the telemetry continues it."""

    @property
    def saved_nusd(self) -> int:
        """Return what the vendors would have charged for what the phrase cache spoke."""
        return sum([attempt.saved_nusd for attempt in self.attempts])

    @property
    def is_cached(self) -> bool:
        """Return whether the phrase cache answered, with a part of live speech at least: its times say nothing of the vendor."""
        return any(attempt.cache == "hit" for attempt in self.attempts)

    @property
    def fell_back(self) -> bool:
        """Return whether a later candidate answered, also where the caller left then."""
        return self.fallback_from is not None or self.status == "fallback"

    @property
    def failed(self) -> bool:
        """Return whether it counts as an error: refused requests do not."""
        return self.status == "error" and not self.refused

    @property
    def was_interrupted(self) -> bool:
        """Return whether the caller left before the answer was complete. The end of a live transcription interrupts nothing."""
        return self.status == "cancelled" and self.modality != "stt"

    @property
    def parts(self) -> list[AttemptRecord]:
        """Return the attempts with a part of their own in the cost; empty where all of it is the one vendor's."""
        return [attempt for attempt in self.attempts if attempt.pricing_source] if len(self.attempts) > 1 else []


class Intent(_RequestFacts, frozen=True, kw_only=True, omit_defaults=True):
    """Journal entry before an upstream call, so that a killed process leaves no call unaccounted for."""

    attempt: int
    """Counts from 0 within the request."""
    estimate: Usage = Usage(source="estimated")
    estimate_nusd: int | None = 0
    estimated_nusd: int = 0
    """Amount that counts against the budget where `estimate_nusd` is unknown."""
