"""What each fault of a vendor becomes at every endpoint and socket: alone, before another vendor, and with the same vendor twice.

`python -m tests.contract.fault_matrix` writes docs/fault-matrix.md; `test_fault_matrix.py` compares it. A caller's vendor speaks
OpenAI's protocol over HTTP, Deepgram's over sockets; the faults are those of `faults.py` and of `test_live_faults.py`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import trio
import trio.testing

from gw.errors import GwError
from gw.net.ws import WsClosed, open_ws
from gw.relay.live_session import FAREWELL_S
from gw.types.usage import RequestRecord
from tests.contract import test_live_faults as live
from tests.contract.callers import CALLERS, SOCKETS, Caller, SocketCaller
from tests.contract.endpoints import (
    CHAT_STREAM,
    CHAT_WHOLE,
    RESPONSES_STREAM,
    RESPONSES_WHOLE,
    SPEECH,
    SPEECH_EVENTS,
    TRANSCRIPTION,
    TRANSCRIPTION_STREAM,
)
from tests.contract.faults import FAULTS, GOOD, Fault, Good
from tests.fakes.hosting import GATEWAY, Plane, open_plane
from tests.fakes.net import Received, ServerSide

PAGE = Path(__file__).resolve().parents[2] / "docs" / "fault-matrix.md"
SETUPS = ("alone", "with another vendor", "the same vendor twice")
NO_RECORD, STILL_RUNS = "NO RECORD", "STILL RUNS"
SETTLES_S = 0.1
LONGEST_S = 15.0
"""Of the gateway's own clocks below: two attempts, each with its first event and the longest pause."""
BATCH = 150
"""Cells in one gateway."""
CONFIG = """
providers: {good: {type: sim, latency_ms: 0}, PROVIDERS}
models:
  llm: {good/echo: {price: {unit: 1M_tokens, input: 1, output: 2}}, LLM}
  stt: {good/tone: {price: {unit: minute, usd: 0.006}}, STT}
  tts: {good/tone: {price: {unit: 1M_characters, usd: 15}, default_voice: alloy}, TTS}
projects: {PROJECTS}
stacks: {STACKS}
routing: {first_event_s: {llm: 2, stt: 2, tts: 2}, whole_answer_s: 2, idle_s: 3, keepalive_s: 600}
"""
_PRICES = {"llm": "{unit: 1M_tokens, input: 1, output: 2}", "stt": "{unit: minute, usd: 0.006}", "tts": "{unit: 1M_characters, usd: 15}"}
_SIM = {"llm": "good/echo", "stt": "good/tone", "tts": "good/tone"}
_VECTORS = (
    b'{"object":"list","model":"m","data":[{"object":"embedding","index":0,',
    b'"embedding":[0.5,0.25]}],"usage":{"prompt_tokens":3,"total_tokens":3}}',
)
_VERDICT = (
    b'{"id":"modr-1","model":"m","results":[{"flagged":false,', b'"categories":{"hate":false},"category_scores":{"hate":0.1}}]}',
)  # fmt: skip
_OTHER_FORMS = {
    b"/embeddings": Good(content_type=b"application/json", content="", pieces=_VECTORS),
    b"/moderations": Good(content_type=b"application/json", content="", pieces=_VERDICT),
}
AnyFault = Fault | live.Fault


def _socket_faults(caller: SocketCaller) -> Sequence[AnyFault]:
    return FAULTS if caller.modality == "llm" else live.FAULTS


@attrs.frozen(eq=False)
class Cell:
    """`number` names its provider, which no other cell asks."""

    number: int
    caller: Caller | SocketCaller
    fault: AnyFault
    setup: str

    @property
    def model(self) -> str:
        return f"bad{self.number}/m"


@attrs.frozen
class Outcome:
    """`word` is the cell of the table."""

    word: str
    records: Sequence[RequestRecord]
    intents: int
    took_s: float


def all_cells() -> list[tuple[Caller | SocketCaller, AnyFault, str]]:
    rows: list[tuple[Caller | SocketCaller, AnyFault]] = [(caller, fault) for caller in CALLERS for fault in FAULTS]
    rows += [(socket, fault) for socket in SOCKETS for fault in _socket_faults(socket)]
    return [(caller, fault, setup) for caller, fault in rows for setup in SETUPS]


def good_of(request: Received) -> Good:
    """Return a good answer to what the gateway asked."""
    for end, form in _OTHER_FORMS.items():
        if request.path.endswith(end):
            return form
    streams = b'"stream":true' in request.body or b'"stream": true' in request.body
    if request.path.endswith(b"/chat/completions"):
        return GOOD[CHAT_STREAM if streams else CHAT_WHOLE]
    if request.path.endswith(b"/responses"):
        return GOOD[RESPONSES_STREAM if streams else RESPONSES_WHOLE]
    if request.path.endswith(b"/speech"):
        return GOOD[SPEECH_EVENTS if b'"sse"' in request.body else SPEECH]
    return GOOD[TRANSCRIPTION_STREAM if b'name="stream"' in request.body else TRANSCRIPTION]


def _host(fault: Fault) -> Any:
    async def host(stream: trio.abc.Stream) -> None:
        server = ServerSide(stream)
        request = await server.request() if fault.play is not None else None
        if request is None or fault.play is None:
            return
        good = good_of(request)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_until_left, stream, nursery.cancel_scope)
                await (fault.play if fault.applies(good) else _well)(server, good)
                nursery.cancel_scope.cancel()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the gateway has heard enough

    return host


async def _until_left(stream: trio.abc.Stream, scope: trio.CancelScope) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while await stream.receive_some(65_536):
            pass
    scope.cancel()


async def _well(server: ServerSide, good: Good) -> None:
    """A fault that this form of answer cannot have."""
    await server.respond(200, good.body, (b"content-type", good.content_type))


def _put(plane: Plane, cell: Cell) -> None:
    """Let the vendor of `cell` misbehave."""
    fault, host = cell.fault, f"bad{cell.number}.test"
    if isinstance(fault, live.Fault):
        plane.net.hosts[host, 80] = fault.connect or live.Upstream(fault)
        resets = fault.then == "resets"
    else:
        resets = fault.resets
        if fault.connect == "dark":
            plane.net.dark.add(host)
        elif isinstance(fault.connect, Exception):
            plane.net.hosts[host, 80] = fault.connect
        elif fault.connect != "nobody":
            plane.net.hosts[host, 80] = _host(fault)
    if resets:
        plane.net.resetting.add(host)


def _config(cells: Iterable[Cell]) -> str:
    """Each cell has a provider of its own and a project with its chain."""
    text, parts = CONFIG, {name: [] for name in ("PROVIDERS", "LLM", "STT", "TTS", "PROJECTS", "STACKS")}  # type: ignore[var-annotated]
    for cell in cells:
        type_, path = ("deepgram", "") if isinstance(cell.fault, live.Fault) else ("openai", "/v1")
        modality = cell.caller.modality
        name = f"bad{cell.number}"
        parts["PROVIDERS"].append(f"{name}: {{type: {type_}, api_key: a-key-of-no-value, base_url: 'http://{name}.test{path}'}}")
        parts[modality.upper()] += [f"{name}/{model}: {{price: {_PRICES[modality]}, default_voice: v}}" for model in "mn"]
        chain = {"alone": "", "with another vendor": _SIM[modality]}.get(cell.setup, f"{name}/n")
        parts["PROJECTS"].append(f"p{cell.number}: {{fallbacks: {{{modality}: [{chain}]}}}}")
        if isinstance(cell.caller, SocketCaller) and modality == "llm":
            parts["STACKS"].append(f"s{cell.number}: {{llm: {name}/m, stt: good/tone, tts: good/tone}}")
    for key, values in parts.items():
        text = text.replace(key + "}", ", ".join(values) + "}")
    return text


async def measure(folder: Path, chosen: Iterable[tuple[Caller | SocketCaller, AnyFault, str]]) -> dict[Cell, Outcome]:
    """Run these cells. Raises AssertionError where a gateway logs an error or leaves anything behind."""
    cells = [Cell(number, *one) for number, one in enumerate(chosen)]
    outcomes: dict[Cell, Outcome] = {}
    for at in range(0, len(cells), BATCH):
        batch = cells[at : at + BATCH]
        async with open_plane(_config(batch), folder) as plane:
            for cell in batch:
                _put(plane, cell)
                with trio.fail_after(120):
                    outcomes[cell] = await _run(plane, cell)
    return outcomes


async def _run(plane: Plane, cell: Cell) -> Outcome:
    kept = plane.kept
    records, intents, began = len(kept.records), len(kept.intents), trio.current_time()
    ask = _ask if isinstance(cell.caller, Caller) else _hold
    word = await ask(plane, cell)
    took_s = trio.current_time() - began
    with trio.move_on_after(SETTLES_S):  # an answer is complete a moment before its task is
        while plane.gateway.relay.in_flight.requests:  # noqa: ASYNC110  # it has no event
            await trio.sleep(0.01)
    if plane.gateway.relay.in_flight.requests:
        word = STILL_RUNS
    return Outcome(word, kept.records[records:], len(kept.intents) - intents, took_s)


async def _ask(plane: Plane, cell: Cell) -> str:
    assert isinstance(cell.caller, Caller)
    path, body, content_type = cell.caller.request(cell.model)
    reply = await plane.post(path, body, content_type, x_gw_project=f"p{cell.number}")
    assert "a-key-of-no-value" not in str(reply.body)
    return str(reply.status) if reply.status != 200 else _word(plane, "broken off")


def _word(plane: Plane, failed: str) -> str:
    if not plane.kept.records:
        return NO_RECORD
    words = {"success": "answered", "fallback": "the other answered", "cancelled": "waits", "error": failed}
    return words[plane.kept.records[-1].status]


async def _hold(plane: Plane, cell: Cell) -> str:
    """Hold a session. It says everything at once, and leaves when nothing more comes."""
    caller = cell.caller
    assert isinstance(caller, SocketCaller)
    model = f"s{cell.number}" if caller.modality == "llm" else cell.model
    target = caller.path(model)
    target += ("&" if "?" in target else "?") + f"gw_project=p{cell.number}"
    records, code = len(plane.kept.records), None
    with suppress(GwError):
        async with open_ws("client", GATEWAY, target.encode(), headers=[], connect=plane.client.connect) as ws:
            with suppress(WsClosed):
                for frame in [*caller.begin(model), *caller.say(model), *caller.end(model)]:
                    await ws.send(frame)
            try:
                with trio.move_on_after(LONGEST_S):
                    while code is None:
                        frame = await ws.receive()
                        if caller.modality == "llm" and "response.done" in str(frame):
                            break
            except WsClosed as closed:
                code = closed.code
    with trio.move_on_after(FAREWELL_S + 0.1):
        while len(plane.kept.records) == records:  # noqa: ASYNC110  # the second record has no event
            await trio.sleep(0.01)
    if len(plane.kept.records) == records:
        return NO_RECORD
    return _word(plane, f"error, {code}" if code is not None else "error")


# ---- the page

INTRODUCTION = """\
# What a vendor's fault becomes

Written by `uv run python -m tests.contract.fault_matrix`; a test compares a part of it, and the session `nightly` all {cells:,} cells:
each fault at each of {endpoints} endpoints and {sockets} sockets, in three setups. A cell has three outcomes: *alone*; *with another
vendor* that is well; *the same vendor twice*, where the chain's second model is one of the same vendor, which has the same fault.

A number is the status of an error in the caller's protocol. *Broken off*: content had gone out, and an error event or a cut
connection ends it. *Error*: an error event in a live session, with the code that closes the socket. *Waits*: the vendor said nothing
wrong and nothing of use, and the caller left. *Or*: callers of the column differ, as where a fault is of streamed answers only and
others are answered. No cell hangs, is a 500, has no record or more than one, or bills a vendor that was sent nothing or refused.
"""
GROUPS = {
    "chat": lambda c: isinstance(c, Caller) and c.modality == "llm" and not c.streams,
    "chat, streamed": lambda c: isinstance(c, Caller) and c.modality == "llm" and c.streams,
    "speech": lambda c: isinstance(c, Caller) and c.modality == "tts",
    "recordings": lambda c: isinstance(c, Caller) and c.modality == "stt",
    "conversation": lambda c: isinstance(c, SocketCaller) and c.modality == "llm",
}
LIVE_GROUPS = {
    "live transcription": lambda c: isinstance(c, SocketCaller) and c.modality == "stt",
    "live speech": lambda c: isinstance(c, SocketCaller) and c.modality == "tts",
}
Table = dict[tuple[str, str], tuple[str, str, str]]
"""(fault, group) → the words of every caller in the group, for each setup."""


def group_of(caller: Caller | SocketCaller) -> str:
    (name,) = [name for name, holds in (GROUPS | LIVE_GROUPS).items() if holds(caller)]  # type: ignore[no-untyped-call]
    return name


def table_of(outcomes: dict[Cell, Outcome]) -> Table:
    found: dict[tuple[str, str, str], set[str]] = {}
    for cell, outcome in outcomes.items():
        found.setdefault((cell.fault.name, group_of(cell.caller), cell.setup), set()).add(outcome.word)
    keys = dict.fromkeys(key[:2] for key in found)
    return {key: tuple(" or ".join(sorted(found[(*key, setup)])) for setup in SETUPS) for key in keys}  # type: ignore[misc]


def page(table: Table, cells: int) -> str:
    """Return docs/fault-matrix.md."""
    parts = [INTRODUCTION.format(cells=cells, endpoints=len(CALLERS), sockets=len(SOCKETS))]
    for title, groups, faults in (("HTTP, and the conversation's language model", GROUPS, FAULTS), ("Sockets", LIVE_GROUPS, live.FAULTS)):
        parts.append(f"\n## {title}\n\n| fault | {' | '.join(groups)} |\n|---|{'---|' * len(groups)}\n")
        for fault in faults:
            row = [table[fault.name, group] for group in groups]  # type: ignore[index]
            parts.append(f"| {fault.name} | " + " | ".join("; ".join(words) for words in row) + " |\n")  # type: ignore[attr-defined]
    return "".join(parts)


def read_page(text: str) -> Table:
    """Return the table of a page."""
    table: Table = {}
    for block in text.split("\n## ")[1:]:
        head, _, *rows = [line for line in block.splitlines() if line.startswith("|")]
        groups = [cell.strip() for cell in head.split("|")[2:-1]]
        for row in rows:
            name, *words = [cell.strip() for cell in row.split("|")[1:-1]]
            for group, word in zip(groups, words, strict=True):
                table[name, group] = tuple(word.split("; "))  # type: ignore[assignment]
    return table


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        outcomes = trio.run(measure, Path(folder), all_cells(), clock=trio.testing.MockClock(autojump_threshold=0))
    PAGE.write_text(page(table_of(outcomes), len(outcomes)), encoding="utf-8")


if __name__ == "__main__":
    main()
