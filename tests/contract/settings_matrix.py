"""What becomes of each setting, for every dialect and provider type: asked of a gateway before the vendors' fakes, and written down.

A cell compares what the vendor was sent with and without the setting, and looks for its effect in the answer. `python -m
tests.contract.settings_matrix` writes docs/settings-matrix.md; `test_settings_matrix.py` compares it.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import msgspec
import trio
import trio.testing

from gw.types.presets import PRESETS
from gw.types.provider_types import PROVIDER_TYPES
from tests.contract import readers, talkers
from tests.contract.asked import (
    SAID,
    SECRET,
    SETUPS,
    Pairs,
    listen,
    open_vendors,
    sent,
    transcribe,
    transcribe_by_job,
    upload,
)
from tests.contract.endpoints import TEXT
from tests.fakes.hosting import Plane

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings-matrix.md"
TYPES = [name for name in PROVIDER_TYPES if name != "sim" and (name in SETUPS or name not in PRESETS)]
DROPPED = "DROPPED"
"""In a cell whose setting had no effect and left no trace: there must be none."""
Check = Callable[[str], bool]


@attrs.frozen
class Result:
    """An answer: its text (None for a refusal), the settings noted as ignored, and what the vendor was sent."""

    text: str | None
    ignored: tuple[str, ...]
    sent: dict[str, list[str]]
    refusal: str = ""


@attrs.frozen
class Row:
    """A setting of one dialect. `has_effect` looks at the answer; None where it does not show there."""

    name: str
    settings: Pairs
    has_effect: Check | None = None


Ask = Callable[[str, Pairs], Any]
"""Asks a provider type with settings; returns a Result, or None where the type does not offer it."""


# ---- effects in an answer


def _speakers(text: str) -> bool:
    labels = re.findall(r'"speaker(?:_id|_label)?": ?"?(\w+)', text)
    return len(set(labels) - {"null"}) >= 2


def _redacted(text: str) -> bool:
    return "[REDACTED]" in text and SECRET not in text


def _words(text: str) -> bool:
    return len(re.findall(r'"start": ?[1-9.0]*[1-9]', text)) >= 2


def _cues(text: str) -> bool:
    return "-->" in text and SAID in text


def _segments(text: str) -> bool:
    return bool(msgspec.json.decode(text)["segments"])


def _plain(text: str) -> bool:
    return text == SAID + "\n"


# ---- the settings of each dialect

RECORDINGS: dict[str, Sequence[Row]] = {
    "openai": (
        Row("language", [("language", "de")]),
        Row("key terms", [("keywords[]", "Acme")]),
        Row("prompt", [("prompt", "Acme")]),
        Row("diarization (`diarized_json`)", [("response_format", "diarized_json")], _speakers),
        Row("word times", [("response_format", "verbose_json"), ("timestamp_granularities[]", "word")], _words),
        Row("format `verbose_json`", [("response_format", "verbose_json")], _segments),
        Row("format `srt`", [("response_format", "srt")], _cues),
        Row("format `vtt`", [("response_format", "vtt")], _cues),
        Row("format `text`", [("response_format", "text")], _plain),
        Row("`temperature`", [("temperature", "0.2")]),
    ),
    "deepgram": (
        Row("language", [("language", "de")]),
        Row("key terms", [("keyterm", "Acme")]),
        Row("redaction", [("redact", "pci")], _redacted),
        Row("no storage (`mip_opt_out`)", [("mip_opt_out", "true")]),
        Row("profanity filter", [("profanity_filter", "true")]),
        Row("diarization", [("diarize", "true")], _speakers),
        Row("segment times (`utterances`)", [("utterances", "true")], lambda text: '"utterances":[{' in text),
        Row("`numerals`", [("numerals", "true")]),
        Row("`summarize`", [("summarize", "v2")]),
    ),
    "assemblyai": (
        Row("language", [("language_code", '"de"')]),
        Row("key terms", [("keyterms_prompt", '["Acme"]')]),
        Row("prompt", [("prompt", '"Acme"')]),
        Row("redaction", [("redact_pii", "true"), ("redact_pii_policies", '["credit_card_number"]')], _redacted),
        Row("profanity filter", [("filter_profanity", "true")]),
        Row("diarization", [("speaker_labels", "true")], _speakers),
        Row("`sentiment_analysis`", [("sentiment_analysis", "true")]),
    ),
    "elevenlabs": (
        Row("language", [("language_code", "de")]),
        Row("key terms", [("keyterms", "Acme")]),
        Row("redaction", [("entity_detection", '["pci"]'), ("entity_redaction", '["pci"]')], _redacted),
        Row("no storage (`enable_logging=false`)", [("?enable_logging", "false")]),
        Row("diarization", [("diarize", "true")], _speakers),
        Row("word times", [("timestamps_granularity", "word")], _words),
        Row("`temperature`", [("temperature", "0.2")]),
        Row("`num_speakers`", [("num_speakers", "2")]),
    ),
    "cartesia": (
        Row("language", [("language", "de")]),
        Row("word times", [("timestamp_granularities[]", "word")], _words),
    ),
}
LIVE: dict[str, tuple[talkers.Talker, Sequence[Row]]] = {
    "openai": (
        talkers.OPENAI_REALTIME,
        (
            Row("language", [("language", '"de"')]),
            Row("key terms", [("keywords", '["Acme"]')]),
            Row("prompt", [("prompt", '"Acme"')]),
        ),
    ),
    "deepgram": (
        talkers.DEEPGRAM,
        (
            Row("language", [("language", "de")]),
            Row("key terms", [("keyterm", "Acme")]),
            Row("redaction", [("redact", "numbers")], _redacted),
            Row("no storage (`mip_opt_out`)", [("mip_opt_out", "true")]),
            Row("profanity filter", [("profanity_filter", "true")]),
            Row("diarization", [("diarize", "true")], _speakers),
            Row("`numerals`", [("numerals", "true")]),
        ),
    ),
    "assemblyai": (
        talkers.ASSEMBLYAI,
        (
            Row("language", [("language_codes", '["de"]')]),
            Row("key terms", [("keyterms_prompt", '["Acme"]')]),
            Row("redaction", [("redact_pii", "true")], _redacted),
            Row("profanity filter", [("filter_profanity", "true")]),
            Row("diarization", [("speaker_labels", "true")], _speakers),
        ),
    ),
    "elevenlabs": (
        attrs.evolve(talkers.ELEVENLABS, path=lambda model: talkers.ELEVENLABS.path(model) + "&commit_strategy=vad"),
        (
            Row("language", [("language_code", "de")]),
            Row("key terms", [("keyterms", "Acme")]),
            Row("redaction", [("entity_redaction", "pci")], _redacted),
            Row("no storage (`enable_logging=false`)", [("enable_logging", "false")]),
        ),
    ),
    "cartesia": (talkers.CARTESIA_TURNS, (Row("language", [("language", "de")]), Row("key terms", [("keyterm", "Acme")]))),
    "livekit": (
        talkers.LIVEKIT,
        (
            Row("language", [("language", '"de"')]),
            Row("key terms (`keyterm`)", [("keyterm", '["Acme"]')]),
            Row("redaction (`redact`)", [("redact", '["numbers"]')], _redacted),
            Row("profanity filter", [("profanity_filter", "true")]),
            Row("diarization (`diarize`)", [("diarize", "true")], _speakers),
        ),
    ),
}
SPEECH: dict[str, Sequence[Row]] = {
    "openai": (
        Row("voice", [("voice", "nova")]),
        Row("speed", [("speed", 1.1)]),
        Row("`instructions`", [("instructions", "calm")]),
        Row("format `wav`", [("response_format", "wav")], lambda text: text.startswith("RIFF")),
    ),
    "deepgram": (
        Row("speed", [("speed", "1.1")]),
        Row("no storage (`mip_opt_out`)", [("mip_opt_out", "true")]),
        Row("format `mulaw`", [("encoding", "mulaw"), ("sample_rate", "8000")], bool),
    ),
    "elevenlabs": (
        Row("voice", [("voice", "v2")]),
        Row("language", [("language_code", "en")]),
        Row("speed", [("voice_settings", {"speed": 1.1})]),
        Row("no storage (`enable_logging=false`)", [("?enable_logging", "false")]),
        Row("`seed`", [("seed", 7)]),
    ),
    "cartesia": (
        Row("voice", [("voice", {"mode": "id", "id": "v2"})]),
        Row("language", [("language", "en")]),
        Row("speed", [("generation_config", {"speed": 1.1})]),
        Row("word times (`add_timestamps`)", [("add_timestamps", True)], lambda text: '"type":"timestamps"' in text),
    ),
}
CHAT = ("openai", "anthropic", "ollama")
_MODELS = {("openai", "diarization (`diarized_json`)"): "gpt-4o-transcribe-diarize", ("openai", "diarization"): "gpt-4o-transcribe-diarize"}
"""Model to ask instead, for a setting that only it has."""


# ---- asking


class Matrix:
    def __init__(self, plane: Plane, fakes: dict[str, Any]) -> None:
        self._plane = plane
        self._fakes = fakes
        self._url = ""
        self._before: dict[tuple[str, str, str], Result] = {}
        self.rows: dict[str, list[tuple[str, dict[str, str]]]] = {}

    async def fill(self) -> None:
        """Ask for every cell."""
        for dialect, rows in RECORDINGS.items():
            for row in rows:
                await self._row(dialect, f"recording: {row.name}", row, "stt", self._recording)
        for dialect, (talker, rows) in LIVE.items():
            for row in rows:
                await self._row(dialect, f"live: {row.name}", row, "live", partial(self._live, talker))
        for dialect, rows in SPEECH.items():
            for row in rows:
                await self._row(dialect, f"speech: {row.name}", row, "tts", self._speech)
        await self._row("livekit", "speech: voice", Row("voice", [("voice", "v2")]), "tts", self._live_speech)
        await self._row("livekit", "speech: language", Row("language", [("language", "en")]), "tts", self._live_speech)

    async def _row(self, dialect: str, name: str, row: Row, kind: str, ask: Callable[..., Any]) -> None:
        cells = {}
        for type_ in TYPES:
            setup = SETUPS.get(type_)
            model = getattr(setup, kind) if setup is not None else ""
            if not model:
                cells[type_] = "–"
                continue
            model = _MODELS.get((type_, row.name), model) if kind == "stt" else model
            key = (dialect, kind, model)
            if key not in self._before:
                self._before[key] = await ask(dialect, f"{type_}/{model}", [])
            before = self._before[key]
            after = await ask(dialect, f"{type_}/{model}", row.settings)
            cells[type_] = _cell(row, before, after)
        self.rows.setdefault(dialect, []).append((name, cells))

    def _since(self, marks: dict[str, int], type_: str) -> dict[str, list[str]]:
        fields: dict[str, list[str]] = {}
        for entry in self._fakes[type_].ledger[marks[type_] :]:
            fields |= sent(entry)
        return fields

    def _marks(self) -> dict[str, int]:
        return {name: len(fake.ledger) for name, fake in self._fakes.items()}

    def _ignored(self) -> tuple[str, ...]:
        record = self._plane.kept.records[-1]
        return record.attempts[-1].ignored_settings if record.attempts else ()

    async def _recording(self, dialect: str, model: str, settings: Pairs) -> Result:
        marks = self._marks()
        if dialect == "assemblyai":
            self._url = self._url or await upload(self._plane)
            reply = await transcribe_by_job(self._plane, self._url, model, settings, {})
        else:
            reply = await transcribe(self._plane, dialect, model, settings)
        if reply.status != 200:
            return Result(None, (), {}, reply.body.decode())
        return Result(reply.body.decode(), self._ignored(), self._since(marks, model.partition("/")[0]))

    async def _live(self, talker: talkers.Talker, dialect: str, model: str, settings: Pairs) -> Result:
        marks, self._plane.kept.finished = self._marks(), trio.Event()
        received = await listen(self._plane, talker, model, settings)
        await self._plane.kept.finished.wait()
        if not received.finals:
            return Result(None, (), {}, str(self._plane.kept.records[-1].error_code))
        text = msgspec.json.encode(received.frames[-8:]).decode()
        return Result(text, self._ignored(), self._since(marks, model.partition("/")[0]))

    async def _speech(self, dialect: str, model: str, settings: Pairs) -> Result:
        marks = self._marks()
        members, query = dict(settings), ""
        match dialect:
            case "openai":
                path, body = "/v1/audio/speech", {"model": model, "input": TEXT, "voice": "alloy", "response_format": "pcm", **members}
            case "deepgram":
                fields = {"model": model, "encoding": "linear16", "sample_rate": "24000", **members}
                path, body = "/v1/speak?" + "&".join(f"{name}={value}" for name, value in fields.items()), {"text": TEXT}
            case "elevenlabs":
                voice = members.pop("voice", "v1")
                query = "".join(f"&{name[1:]}={members.pop(name)}" for name in list(members) if name[0] == "?")
                path = f"/v1/text-to-speech/{voice}?output_format=pcm_24000{query}"
                body = {"text": TEXT, "model_id": model, **members}
            case _:
                output = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24_000}
                common = {"model_id": model, "transcript": TEXT, "voice": {"mode": "id", "id": "v1"}, "output_format": output}
                path, body = ("/tts/sse" if "add_timestamps" in members else "/tts/bytes"), {**common, **members}
        reply = await self._plane.post(path, msgspec.json.encode(body))
        if reply.status != 200:
            return Result(None, (), {}, reply.body.decode())
        return Result(reply.body.decode("latin-1"), self._ignored(), self._since(marks, model.partition("/")[0]))

    async def _live_speech(self, dialect: str, model: str, settings: Pairs) -> Result:
        marks, self._plane.kept.finished = self._marks(), trio.Event()
        members = {"voice": "v1", **dict(settings)}
        begin = talkers.as_json(type="session.create", model=model, sample_rate="24000", encoding="pcm_s16le", extra={}, **members)
        reader = attrs.evolve(readers.LIVEKIT, begin=lambda _: [begin])
        spoken = await readers.converse(reader, self._plane, model, ["one two three. "])
        await self._plane.kept.finished.wait()
        if not spoken.pcm:
            return Result(None, (), {}, " ".join(spoken.errors))
        return Result("spoken", self._ignored(), self._since(marks, model.partition("/")[0]))


_SKIPPED = ("unsupported_setting", "no candidate honours")
"""Code of the error, or its text where a protocol has no code."""


def _cell(row: Row, before: Result, after: Result) -> str:
    names = {name.removeprefix("?") for name, _ in row.settings}
    if after.text is None:
        if "upstream_rejected" in after.refusal:
            return "refused by the vendor"
        return "skipped" if any(words in after.refusal for words in _SKIPPED) else f"{DROPPED}: {after.refusal[:300]}"
    noted = set(after.ignored) - set(before.ignored)
    if noted:
        return "noted"
    if row.has_effect is not None and not row.has_effect(after.text):
        return f"{DROPPED}: no effect in {after.text[:300]}"
    added = [name for name, values in after.sent.items() if values != before.sent.get(name) and name != "chunking_strategy"]
    if not added:
        if row.name == "voice":
            return "own voice"
        return "kept here" if row.has_effect is not None else "kept" if row.name in _IMPLIED else f"{DROPPED}: nothing sent"
    if set(added) <= names | {"query"}:
        return "kept"
    return "→ " + ", ".join(f"`{name}`" for name in added if name not in _BESIDE)


_IMPLIED = {"no storage (`mip_opt_out`)", "no storage (`enable_logging=false`)", "language"}
"""Settings that a vendor may honour without a word: nothing leaves a local server, a voice speaks the language of its text."""
_BESIDE = {"entity_detection"}


# ---- the page

HEAD = """\
# Settings across vendors

Written by `python -m tests.contract.settings_matrix` from what happened: each cell is a request through a gateway before a fake
of that vendor, with the setting and without. A test fails when this page is out of date.

A caller's settings keep their meaning when another vendor answers. A setting is passed on, translated into the vendor's own
word, or the candidate is skipped; the record then says why (`attempts[].detail` of `GET /v1/requests/{id}`). If no candidate
honours the settings, the answer is a 400 with the code `unsupported_setting` in the caller's protocol (for live sessions the
refused handshake, or an error message), which names them. Settings that only tune the answer, and that the answering vendor
does not have, are ignored and noted: in `X-GW-Ignored-Settings` of an HTTP response, and in `attempts[].ignored_settings`.
A change of settings in the middle of a live session (such as `Configure`) that the vendor cannot be sent is noted there too.

| cell | meaning |
|---|---|
| kept | the vendor gets the caller's own word, or needs none (nothing leaves a local server; a voice speaks the language of its text) |
| → `word` | the vendor gets its own word |
| kept here | the gateway makes it of the vendor's answer |
| noted | ignored by this vendor, and noted |
| skipped | this candidate is passed over |
| own voice | the vendor, or the model of the voice that is configured, speaks with its own |
| refused by the vendor | the vendor gets the caller's own word, and its model does not take it |
| – | the type does not offer this |

What a model can do decides, where models of a vendor differ: these tables use the models named last on this page.
Redaction is translated to entities that cover at least what was asked; AssemblyAI redacts final transcripts only, so its
interim results are held back. ElevenLabs redacts recordings; live, it sends redacted transcripts beside others that are not, of
which an app with its own protocol gets the redacted ones only.
"""


def page(rows: dict[str, list[tuple[str, dict[str, str]]]]) -> str:
    """Return docs/settings-matrix.md."""
    parts = [HEAD]
    for dialect in ("openai", "deepgram", "assemblyai", "elevenlabs", "cartesia", "livekit"):
        parts.append(f"\n## {_NAMES[dialect]}\n\n| setting | {' | '.join(TYPES)} |\n|---|{'---|' * len(TYPES)}\n")
        parts += [f"| {name} | {' | '.join(cells[type_] for type_ in TYPES)} |\n" for name, cells in rows[dialect]]
    parts.append("\n## Anthropic's and Ollama's protocols\n\nThey are for language models only, and have none of these settings.\n")
    models = [f"| {name} | {s.stt or '–'} | {s.live or '–'} | {s.tts or '–'} |\n" for name, s in SETUPS.items()]
    parts += ["\n## Models\n\n| type | recordings | live | speech |\n|---|---|---|---|\n", *models]
    parts.append("\nDiarization by OpenAI is that of `gpt-4o-transcribe-diarize`.\n")
    return "".join(parts)


_NAMES = {
    "openai": "OpenAI's and Groq's protocol", "deepgram": "Deepgram's protocol", "assemblyai": "AssemblyAI's protocol",
    "elevenlabs": "ElevenLabs' protocol", "cartesia": "Cartesia's protocol", "livekit": "LiveKit's inference protocol",
}


async def measure(folder: Path) -> dict[str, list[tuple[str, dict[str, str]]]]:
    """Return what became of every setting: dialect → rows of a name and a cell for each type."""
    more = sorted({f"{type_}/{model}" for (type_, _), model in _MODELS.items()})
    async with open_vendors(folder, extra_models=more) as (plane, fakes):
        matrix = Matrix(plane, fakes)
        await matrix.fill()
        return matrix.rows


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows = trio.run(measure, Path(folder), clock=trio.testing.MockClock(autojump_threshold=0))
    PAGE.write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
