"""docs/providers/README.md, made from the specs of the provider types and their rate tables."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

from gw.providers.spec import CALLS, ProviderSpec, spec_of
from gw.types.presets import PRESETS
from gw.types.provider_types import PROVIDER_TYPES

INTRODUCTION = """\
# Providers

Generated from the `SPEC` of each provider type by `uv run nox -s docs -- --write`. Each type has a page with a working configuration, its
usage figures and its pitfalls; vendors that are a file share [one](presets.md). To add a type, see
[adding-a-provider.md](../adding-a-provider.md).

**Transport** is the connection between gw and the provider. Apps can use any of the gateway's protocols with any provider. **Billed by**
is the unit of the record. *Reported* units are the vendor's own figures. *Counted* units are measured by gw: tokens are estimated from
the length of the text, audio is measured in bytes, characters are Unicode code points as sent. If a vendor reports usage, the record also
has gw's own count.

"""
_TASKS = {
    "chat": "chat",
    "transcribe": "transcription of recordings",
    "listen": "live transcription",
    "speak": "speech",
    "speak_live": "live speech",
}
_UNITS = {"chat": "tokens", "transcribe": "seconds", "listen": "seconds", "speak": "characters", "speak_live": "characters"}
_NAMES = {
    "pcm_s16le": "PCM", "pcm_f32le": "float PCM", "mulaw": "µ-law", "alaw": "A-law", "wav": "WAV", "mp3": "MP3", "opus": "Opus",
    "ogg": "Ogg", "aac": "AAC", "flac": "FLAC", "webm": "WebM", "mp4": "MP4",
}  # fmt: skip
_LAST = """
## Sound

This table lists the formats that each provider makes itself. gw converts to other requested formats: to raw samples, WAV, µ-law, A-law
and MP3 always, to Opus, Ogg, AAC and FLAC with `pip install '.[audio]'`. Without that extra, gw skips a candidate that does not offer
the requested format, and the error names the extra.

gw passes audio that an app *sends* in a live session unchanged to a provider that accepts its format (Deepgram accepts containers). Other
providers, and every provider that takes over in mid-session, receive 16 kHz samples. gw decodes WAV always, and Ogg and WebM with Opus,
bare Opus packets, FLAC, MP3 and AAC with the extra `audio`. It does not decode a streamed MP4. Without the extra, gw answers 501
`plugin_missing`.

"""


def provider_page() -> str:
    """docs/providers/README.md as it should be."""
    specs = [spec_of(name) for name in PROVIDER_TYPES]
    parts = [INTRODUCTION, "| type | where | does | transport | billed by |\n|---|---|---|---|---|\n"]
    parts += [row for spec in specs for row in _calls(spec)]
    parts += [_LAST, "| type | speaks | at | live |\n|---|---|---|---|\n"]
    parts += [_sound(spec) for spec in specs if spec.speak is not None or spec.speak_live is not None]
    parts += ["\n", *_prices(specs)]
    return "".join(parts)


def _calls(spec: ProviderSpec) -> Iterator[str]:
    first = True
    for call in CALLS:
        if getattr(spec, call) is None:
            continue
        ended = PROVIDER_TYPES[spec.type].ended
        where = f"{spec.location}, ended on {ended}" if ended else spec.location
        name = f"{_page(spec)} | {where}" if first else " | "
        source = "reported" if call in spec.reported else "counted"
        rounded = f", at least {spec.rounds_audio_up_to_s:g}" if spec.rounds_audio_up_to_s and call == "transcribe" else ""
        yield f"| {name} | {_TASKS[call]} | {spec.transport(call)} | {spec.units.get(call, _UNITS[call])}, {source}{rounded} |\n"
        first = False


def _page(spec: ProviderSpec) -> str:
    if spec.type == "sim":
        return "`sim`"
    return f"[`{spec.type}`]({f'presets.md#{spec.type}' if spec.type in PRESETS else f'{spec.type}.md'})"


def _sound(spec: ProviderSpec) -> str:
    whole = _formats(spec.speak_formats) if spec.speak is not None else "–"
    live = _formats(spec.speak_live_formats) if spec.speak_live is not None else "–"
    rates = ", ".join(f"{rate / 1000:g}" for rate in sorted(spec.speak_rates_hz))
    return f"| `{spec.type}` | {whole} | {rates + ' kHz' if rates else 'any rate, or its own'} | {live} |\n"


def _formats(encodings: frozenset[str]) -> str:
    return ", ".join(name for encoding, name in _NAMES.items() if encoding in encodings) or "any requested format"


def _prices(specs: list[ProviderSpec]) -> Iterator[str]:
    """Which types have list prices in the tables that gw brings."""
    tables = {entry.name.removesuffix(".toml") for entry in files("gw.pricing").joinpath("rates").iterdir()}
    priced = [f"`{spec.type}`" for spec in specs if spec.type in tables and spec.location == "cloud"]
    yield "## Prices\n\n"
    yield f"gw includes list prices for {', '.join(priced)}.\n"
    yield "Local types cost 0 unless `price` says otherwise. A model without a price is recorded as *unpriced*: its cost is null\n"
    yield "and never 0. Reports count such requests separately (`unpriced_requests`), `gw check` names the models, and\n"
    yield "`cost_tracking.on_unpriced: refuse` skips such models.\n"
