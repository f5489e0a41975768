"""Every speech vendor behind every protocol for speech: calls of a gateway before the vendors' fakes, and what came of each.

A cell is a call in a protocol's own words. It is `yes` if the answer has the words that the vendor heard, or the sound of the text, and
the record names the vendor. `python -m tests.contract.vendor_matrix` writes docs/matrix.md; `test_vendor_matrix.py` compares it.
"""

from __future__ import annotations

import tempfile
from base64 import b64decode
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import attrs
import msgspec
import trio
import trio.testing

from gw.config.parse import parse
from gw.errors import ConfigError, ProviderError
from gw.net.ws import WsClosed
from gw.providers.sim import fsk
from gw.types.ids import Modality
from gw.types.provider_types import PROVIDER_TYPES
from tests.contract import asked, callers, readers, talkers
from tests.contract.endpoints import ENDPOINTS, TEXT
from tests.fakes.hosting import Plane, Reply
from tests.fakes.vendors.openai import FakeOpenAI

PAGE = Path(__file__).resolve().parents[2] / "docs" / "matrix.md"
ANSWER_S = 60.0  # of virtual time, for any call
Ask = Callable[[Plane, str], Awaitable[str]]
"""Makes a call for a model; returns the words of its answer."""


class NoAnswer(Exception):
    """The call was refused or failed; the text is what the gateway said."""


@attrs.frozen
class Call:
    """A way to ask for speech or transcripts. `place`: its method and path, as in docs/dialects."""

    protocol: str
    place: str
    modality: Modality
    ask: Ask


# ---- over HTTP


def _protocol(name: str) -> str:
    """Return the owner of the protocol of a caller, by its name."""
    first = name.partition(" ")[0]
    return first if first in ("deepgram", "cartesia", "elevenlabs", "livekit", "assemblyai") else "openai"


async def _post(caller: callers.Caller, plane: Plane, model: str) -> str:
    reply = await plane.post(*caller.request(model))
    if reply.status != 200:
        raise NoAnswer(reply.body.decode())
    return _written(reply) if caller.modality == "stt" else _sound(_audio(caller.name, reply))


async def _job(plane: Plane, model: str) -> str:
    reply = await asked.transcribe(plane, "assemblyai", model)
    if reply.status != 200 or reply.json["status"] != "completed":
        raise NoAnswer(reply.body.decode())
    return str(reply.json["text"])


def _written(reply: Reply) -> str:
    """Return the transcript in an answer; the events of a stream say it at their end once more."""
    text = (reply.events[-1] if reply.events else reply.body).decode()
    return asked.SAID if asked.SAID in text else text


_FORMS: Mapping[str, Callable[[Reply], str | bytes]] = {endpoint.name: endpoint.content for endpoint in ENDPOINTS}


def _audio(name: str, reply: Reply) -> bytes:
    if name in _FORMS:
        content = _FORMS[name](reply)
        assert isinstance(content, bytes)
        return content
    match name:
        case "cartesia sse":
            return _joined(reply.body.split(b"\n\n"), "data")
        case "elevenlabs timed, whole" | "elevenlabs timed":
            return _joined(reply.body.splitlines(), "audio_base64")
    return reply.body


def _joined(blocks: Sequence[bytes], member: str) -> bytes:
    """Return the audio of JSON objects, or of events with such."""
    found = [block[block.index(b"{") :] for block in blocks if b"{" in block]
    return b"".join(b64decode(msgspec.json.decode(part).get(member) or "") for part in found)


def _sound(pcm: bytes, rate_hz: int = 24_000) -> str:
    return " ".join(" ".join(done.text for done in fsk.decode(pcm, rate_hz)).split())


# ---- over sockets


async def _listen(talker: talkers.Talker, plane: Plane, model: str) -> str:
    received = await asked.listen(plane, talker, model)
    if not received.text:
        raise NoAnswer(" ".join(received.errors) or received.reason)
    return received.text


async def _speak(reader: readers.Reader, plane: Plane, model: str) -> str:
    try:
        spoken = await readers.converse(reader, plane, model, [TEXT + ". "])
    except (ProviderError, WsClosed) as refused:
        raise NoAnswer(str(refused)) from None
    if not spoken.pcm:
        raise NoAnswer(" ".join(spoken.errors) or spoken.reason)
    return _sound(spoken.pcm, reader.format.sample_rate_hz).rstrip(".")


def _place(method: str, target: str) -> str:
    return f"{method} {target.partition('?')[0].replace('/alloy', '/{voice}')}"


_COMMITTING = attrs.evolve(talkers.ELEVENLABS, path=lambda model: talkers.ELEVENLABS.path(model) + "&commit_strategy=vad")
_TALKERS = [_COMMITTING if talker is talkers.ELEVENLABS else talker for talker in talkers.TALKERS]
"""Without `commit_strategy`, ElevenLabs leaves it to the app to end a segment."""
_FORM_NAMES = {"speech events": "as events", "transcription stream": "as events"}
"""Of calls whose path another call has, too."""


def _posted(caller: callers.Caller) -> Call:
    form = f", {_FORM_NAMES[caller.name]}" if caller.name in _FORM_NAMES else ""
    place = _place("POST", caller.request("MODEL")[0]) + form
    return Call(_protocol(caller.name), place, caller.modality, partial(_post, caller))


CALLS: Sequence[Call] = [
    *(_posted(caller) for caller in callers.CALLERS if caller.modality != "llm"),
    Call("assemblyai", "POST /v2/upload, /v2/transcript", "stt", _job),
    *(Call(_protocol(talker.name), _place("WS", talker.path("MODEL")), "stt", partial(_listen, talker)) for talker in _TALKERS),
    *(Call(_protocol(reader.name), _place("WS", reader.path("MODEL")), "tts", partial(_speak, reader)) for reader in readers.READERS),
]
VENDORS: Sequence[str] = [
    name for name, type_ in PROVIDER_TYPES.items() if name != "sim" and {"stt", "tts"}.intersection(type_.modalities)
]
Cells = dict[tuple[Call, str], str]
"""Call and vendor → `yes`, or `no: ` and what the gateway said."""


def offers(vendor: str, call: Call) -> bool:
    return call.modality in PROVIDER_TYPES[vendor].modalities


# ---- asking


def speak_words(fakes: Mapping[str, Any]) -> None:
    """Have the fakes of OpenAI's protocol, too, speak in tones that say the text."""
    for fake in fakes.values():
        if isinstance(fake, FakeOpenAI):
            fake.speech_pcm = lambda request: b"".join(fsk.encode(request.text, 24_000))


async def measure(folder: Path, wanted: Iterable[tuple[Call, str]]) -> Cells:
    """Make these calls, all to one gateway; leave out vendors that do not offer the modality, which a configuration refuses."""
    async with asked.open_vendors(folder) as (plane, fakes):
        speak_words(fakes)
        return {(call, vendor): await _cell(plane, fakes[vendor], call, vendor) for call, vendor in wanted if offers(vendor, call)}


def model_of(call: Call, vendor: str) -> str:
    """Return the vendor's model that a call is made for, in the vendor's own name."""
    setup = asked.SETUPS[vendor]
    if call.modality == "tts":
        return setup.tts
    return (setup.live or setup.stt) if call.place.startswith("WS") else (setup.stt or setup.live)


async def _cell(plane: Plane, fake: Any, call: Call, vendor: str) -> str:
    name = model_of(call, vendor)
    calls_before, plane.kept.finished = len(fake.ledger), trio.Event()
    reason = ""
    with trio.fail_after(ANSWER_S):
        try:
            text = await call.ask(plane, f"{vendor}/{name}")
        except NoAnswer as answer:
            text, reason = "", str(answer)
        await plane.kept.finished.wait()
    record = plane.kept.records[-1]
    if not text:
        last = record.attempts[-1] if record.attempts else None
        assert (record.status, record.error_code) != ("success", None), (call, vendor, reason)
        return f"no: {last.detail if last is not None and last.detail else reason}"
    expected = asked.SAID if call.modality == "stt" else TEXT
    assert (text, record.status, record.model_id) == (expected, "success", f"{vendor}/{name}"), (call.place, vendor)
    assert len(fake.ledger) > calls_before, (call.place, vendor)
    return "yes"


def refusal(vendor: str, modality: Modality) -> str:
    """Return what the configuration says of a model of a modality that the vendor does not offer."""
    try:
        text = f"providers: {{{vendor}: {{api_key: k, base_url: 'http://v.test'}}}}\nmodels: {{{modality}: {{{vendor}/m: {{}}}}}}\n"
        parse(text, file="gw.yaml", env={}, data_dir=Path())
    except ConfigError as error:
        return str(error)
    return ""


# ---- the page

HEAD = """\
# Speech vendors behind every protocol

Written by `python -m tests.contract.vendor_matrix` from what happened: each cell is a call in a protocol's own words to a gateway, whose
vendors are fakes behind HTTP and WebSockets. Two tests make a part of the calls again, and at night all of them, and fail when this page
differs: `tests/contract/test_vendor_matrix.py`, and `tests/clients/test_vendor_matrix_sdks.py`, which makes each call with an unchanged SDK
of the protocol's owner. [All clients that were run unchanged](dialects/README.md) are in a table of their own, and what becomes of each
setting is in [another](settings-matrix.md).

| cell | meaning |
|---|---|
| yes | the answer has the words that the vendor heard, or its sound says the text, and the record names the vendor |
| no, with a letter | the call is refused, in the words below the table |

A vendor that takes whole recordings or whole texts is given each utterance, or each sentence, of a live session. A vendor is left out
where it has no model for the table: the configuration refuses one.
"""
_TITLES: Mapping[Modality, str] = {"stt": "Transcription", "tts": "Speech"}


def page(cells: Cells) -> str:
    """Return docs/matrix.md."""
    return HEAD + "".join(_table(modality, title, cells) for modality, title in _TITLES.items())


def _table(modality: Modality, title: str, cells: Cells) -> str:
    vendors = [vendor for vendor in VENDORS if modality in PROVIDER_TYPES[vendor].modalities]
    rows, reasons = [f"| protocol | call | {' | '.join(vendors)} |", f"|---|---|{'---|' * len(vendors)}"], list[str]()
    calls = [call for call in CALLS if call.modality == modality]
    for call in sorted(calls, key=lambda call: _PROTOCOLS.index(call.protocol)):
        row = []
        for cell in (cells[call, vendor] for vendor in vendors):
            reasons += [cell] if cell != "yes" and cell not in reasons else []
            row.append(cell if cell == "yes" else f"no {_letter(reasons.index(cell))}")
        rows.append(f"| {call.protocol} | `{call.place}` | {' | '.join(row)} |")
    notes = [f"- {_letter(n)}: {reason.removeprefix('no: ')}" for n, reason in enumerate(reasons)]
    return "\n".join(["", f"## {title}", "", *rows, *(["", *notes] if notes else []), ""])


def _letter(n: int) -> str:
    return "abcdefghijklmnopqrstuvwxyz"[n]


_PROTOCOLS = ("openai", "deepgram", "assemblyai", "elevenlabs", "cartesia", "livekit")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        cells = trio.run(measure, Path(folder), list(product(CALLS, VENDORS)), clock=trio.testing.MockClock(autojump_threshold=0))
    PAGE.write_text(page(cells), encoding="utf-8")


if __name__ == "__main__":
    main()
