"""docs/providers/README.md, made from the specs of the provider types and their rate tables."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

from gw.providers.spec import CALLS, ProviderSpec, spec_of
from gw.types.provider_types import PROVIDER_TYPES

INTRODUCTION = """\
# Providers

Written from the providers' own specifications by `uv run nox -s docs -- --write`. Each type has a page with a working
configuration, what is reported and its pitfalls; how to add a type: [adding-a-provider.md](../adding-a-provider.md).

**Transport** is how gw talks to the provider; an app may use any protocol of the gateway with any of them. **Billed by** is
the unit of the record. *Reported* units are the vendor's own figures, *counted* ones are measured here: tokens are estimated
from the text's length, audio by its bytes, characters are Unicode code points as sent. Where a vendor reports, our own count
stands beside its figure in the record.

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

What a provider speaks by itself. Anything else that an app asks for is made here: raw samples, WAV and telephone codes always,
MP3, Opus, Ogg, AAC and FLAC with `pip install 'gw[audio]'`. Without that a candidate that cannot give what was asked for is
passed over, and the error names the extra.

What an app *sends* in a live session goes to a provider that takes it (Deepgram takes containers) as it came. Others, and
whoever takes over in the middle, are given samples of 16 kHz: WAV always, Ogg and WebM with Opus, bare Opus packets, FLAC, MP3
and AAC with `gw[audio]`; MP4 is not decoded as it comes. Without the extra the answer is 501 `plugin_missing`, which names it.

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
        name = f"{_page(spec)} | {spec.location}" if first else " | "
        source = "reported" if call in spec.reported else "counted"
        rounded = f", at least {spec.rounds_audio_up_to_s:g}" if spec.rounds_audio_up_to_s and call == "transcribe" else ""
        yield f"| {name} | {_TASKS[call]} | {spec.transport(call)} | {spec.units.get(call, _UNITS[call])}, {source}{rounded} |\n"
        first = False


def _page(spec: ProviderSpec) -> str:
    return "`sim`" if spec.type == "sim" else f"[`{spec.type}`]({spec.type}.md)"


def _sound(spec: ProviderSpec) -> str:
    whole = _formats(spec.speak_formats) if spec.speak is not None else "–"
    live = _formats(spec.speak_live_formats) if spec.speak_live is not None else "–"
    rates = ", ".join(f"{rate / 1000:g}" for rate in sorted(spec.speak_rates_hz))
    return f"| `{spec.type}` | {whole} | {rates + ' kHz' if rates else 'any rate, or its own'} | {live} |\n"


def _formats(encodings: frozenset[str]) -> str:
    return ", ".join(name for encoding, name in _NAMES.items() if encoding in encodings) or "what it is asked for"


def _prices(specs: list[ProviderSpec]) -> Iterator[str]:
    """Which types have list prices in the tables that gw brings."""
    tables = {entry.name.removesuffix(".toml") for entry in files("gw.pricing").joinpath("rates").iterdir()}
    priced = [f"`{spec.type}`" for spec in specs if spec.type in tables and spec.location == "cloud"]
    yield "## Prices\n\n"
    yield f"gw brings list prices for {', '.join(priced)}.\n"
    yield "Local types cost 0 unless `price` says otherwise. A model without a price is recorded as *unpriced*: its cost is null\n"
    yield "and never 0, reports count such requests apart (`unpriced_requests`), `gw check` names the models, and\n"
    yield "`cost_tracking.on_unpriced: refuse` passes them over.\n"
