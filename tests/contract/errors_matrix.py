"""What each failure of a vendor becomes for a caller of the same protocol, alone and with a chain: measured, and written down.

`python -m tests.contract.errors_matrix` writes docs/errors-matrix.md; `test_errors_matrix.py` compares it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import msgspec
import trio
import trio.testing

from tests.contract.asked import transcribe_by_job
from tests.contract.endpoints import TEXT, chat_body, recording
from tests.fakes.hosting import Plane, Reply, hosted, open_plane
from tests.fakes.vendors.anthropic import FakeAnthropic
from tests.fakes.vendors.assemblyai import FakeAssemblyAI
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs
from tests.fakes.vendors.ollama import FakeOllama
from tests.fakes.vendors.openai import FakeOpenAI

PAGE = Path(__file__).resolve().parents[2] / "docs" / "errors-matrix.md"
STATUSES = (400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529)
CODES = {
    400: "invalid_value", 401: "invalid_api_key", 402: "payment_required", 403: "missing_permissions", 404: "model_not_found",
    413: "request_too_large", 422: "validation_error", 429: "rate_limit_exceeded",
}  # fmt: skip
"""Codes of the vendors' answers; `server_error` for the rest."""
NO_MODEL = {
    "anthropic": b'{"type":"error","error":{"type":"not_found_error","message":"model: m"},"request_id":"req_1"}',
    "ollama": b'{"error":"model \'m\' not found"}',
}
"""Bodies of the 404 of vendors without codes: anthropic-python's `NotFoundError` has this type, and the message names the model;
Ollama's API documentation has the other."""
RETRY_AFTER_S = "7"


@attrs.frozen
class Protocol:
    """A vendor and a request in its protocol. `words` returns the error's type and code from a body."""

    make: Callable[..., Any]
    modality: str
    model: str
    request: Callable[[str], tuple[str, bytes, str]]
    words: Callable[[dict[str, Any]], tuple[Any, ...]]
    root: str = ""


def _chat(path: str, **members: Any) -> Callable[[str], tuple[str, bytes, str]]:
    return lambda model: (path, *chat_body(model, stream=False, **members))


def _elevenlabs(model: str) -> tuple[str, bytes, str]:
    return "/v1/text-to-speech/v1", msgspec.json.encode({"text": TEXT, "model_id": model}), "application/json"


def _cartesia(model: str) -> tuple[str, bytes, str]:
    output = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 16_000}
    body = {"model_id": model, "transcript": TEXT, "voice": {"mode": "id", "id": "v1"}, "output_format": output}
    return "/tts/bytes", msgspec.json.encode(body), "application/json"


def _openai_words(body: dict[str, Any]) -> tuple[Any, ...]:
    return body["error"]["type"], body["error"]["code"]


PROTOCOLS = {
    "openai": Protocol(FakeOpenAI, "llm", "m", _chat("/v1/chat/completions"), _openai_words, "/v1"),
    "groq": Protocol(
        lambda **more: FakeOpenAI(prefix="/openai/v1", **more), "llm", "m", _chat("/openai/v1/chat/completions"), _openai_words,
        "/openai/v1",
    ),
    "anthropic": Protocol(
        FakeAnthropic, "llm", "m", _chat("/v1/messages", max_tokens=10), lambda body: (body["error"]["type"],)
    ),
    "ollama": Protocol(FakeOllama, "llm", "m", _chat("/ollama/api/chat"), lambda body: ("text",) if body["error"] else ()),
    "deepgram": Protocol(
        FakeDeepgram, "stt", "nova-3", lambda model: (f"/v1/listen?model={model}", recording(), "audio/wav"),
        lambda body: (body["err_code"],),
    ),
    "elevenlabs": Protocol(
        FakeElevenLabs, "tts", "eleven_v3", _elevenlabs, lambda body: (body["detail"]["type"], body["detail"]["code"])
    ),
    "cartesia": Protocol(FakeCartesia, "tts", "sonic-3", _cartesia, lambda body: (body["error_code"],)),
    "assemblyai": Protocol(
        FakeAssemblyAI, "stt", "universal-3-5-pro", lambda model: ("", b"", ""), lambda body: ("text",) if body["error"] else ()
    ),
}  # fmt: skip
SIM = {"llm": "sim/echo", "stt": "sim/tone", "tts": "sim/tone"}


@attrs.frozen
class Cell:
    """An answer: its status, the words of the error, `Retry-After` and `x-should-retry` ("" = absent)."""

    status: int
    words: tuple[Any, ...] = ()
    retry_after: str = ""
    should_retry: str = ""
    gw: str = ""
    """Our class."""

    def __str__(self) -> str:
        if self.status == 200 and not self.words:
            return "200"
        parts = [f"**{self.status}** " + ", ".join(f"`{word}`" for word in self.words)]
        parts += [f"`Retry-After: {self.retry_after}`"] if self.retry_after else []
        parts += [f"`x-should-retry: {self.should_retry}`"] if self.should_retry else []
        return "; ".join(parts)


Table = dict[str, dict[int, tuple[Cell, Cell]]]
"""Protocol → status of the vendor → alone, with a chain."""


def _config() -> str:
    """Two providers for each cell, so that what one learns of its vendor is not known to the next."""
    names = [(kind, f"{kind}{status}{end}") for kind in PROTOCOLS for status in STATUSES for end in "ab"]
    lines = ["providers:", "  sim: {}"]
    for kind, name in names:
        lines.append(f"  {name}: {{type: {kind}, api_key: k, base_url: 'http://{name}.test{PROTOCOLS[kind].root}'}}")
    lines.append("models:")
    for modality, sim in SIM.items():
        lines += [f"  {modality}:", f"    {sim}: {{}}"]
        lines += [f"    {name}/{PROTOCOLS[kind].model}: {{}}" for kind, name in names if PROTOCOLS[kind].modality == modality]
    lines.append("fallbacks: {llm: [sim/echo], stt: [sim/tone], tts: [sim/tone]}")
    return "\n".join(lines) + "\n"


async def measure(folder: Path) -> Table:
    """Return every cell."""
    table: Table = {}
    async with open_plane(_config(), folder) as plane:
        for kind, protocol in PROTOCOLS.items():
            table[kind] = {}
            for status in STATUSES:
                alone = await _ask(plane, protocol, kind, status, "a", x_gw_fallback="off")
                table[kind][status] = alone, await _ask(plane, protocol, kind, status, "b")
    return table


async def _ask(plane: Plane, protocol: Protocol, kind: str, status: int, end: str, **headers: str) -> Cell:
    name = f"{kind}{status}{end}"
    fake = protocol.make(api_key="k")
    fake.status, fake.error_code = status, CODES.get(status, "server_error")
    fake.headers = [("retry-after", RETRY_AFTER_S)] if status == 429 else []
    fake.error_body = NO_MODEL.get(kind) if status == 404 else None
    plane.net.hosts[f"{name}.test", 80] = hosted(fake)
    model = f"{name}/{protocol.model}"
    if kind == "assemblyai":
        uploaded = await plane.post("/v2/upload", recording(), "application/octet-stream", **headers)
        reply = await transcribe_by_job(plane, uploaded.json["upload_url"], model, (), headers)
    else:
        path, body, content_type = protocol.request(model)
        reply = await plane.post(path, body, content_type, **headers)
    return _cell(protocol, reply)


def _cell(protocol: Protocol, reply: Reply) -> Cell:
    failed = reply.status != 200 or b'"status":"error"' in reply.body
    if not failed:
        return Cell(200)
    body = reply.json
    inner = body if "gw" in body else body.get("detail") or body["error"]
    about = inner.get("gw", {}).get("type", "") if isinstance(inner, dict) else ""
    return Cell(
        reply.status, protocol.words(body), reply.headers.get("retry-after", ""), reply.headers.get("x-should-retry", ""), about
    )


def page(table: Table) -> str:
    """Return docs/errors-matrix.md."""
    parts = [
        "# What a vendor's failure becomes\n\nWritten by `uv run python -m tests.contract.errors_matrix`; a test compares it.\n\n"
        "Each row is a status of the vendor, asked in that vendor's own protocol. *Alone*: without another candidate "
        "(`X-GW-Fallback: off`). *With a chain*: the next candidate is well; where it is not asked, the request itself is at "
        "fault, and would fail everywhere. The words are the members that the vendor's SDK reads. OpenAI's, Groq's and "
        "Anthropic's SDKs retry 408, 409, 429 and 5xx unless `x-should-retry` is `false`, and wait for `Retry-After`. "
        "A job of AssemblyAI is polled with status 200 and `status: error`, as at the vendor. The vendor's 429 has "
        f"`Retry-After: {RETRY_AFTER_S}`.\n"
    ]
    for kind, rows in table.items():
        parts.append(f"\n## {kind}\n\n| vendor | alone | with a chain |\n|---|---|---|\n")
        parts += [f"| {status} | {alone} | {chained} |\n" for status, (alone, chained) in rows.items()]
    return "".join(parts)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = trio.run(measure, Path(folder), clock=trio.testing.MockClock(autojump_threshold=0))
    PAGE.write_text(page(table), encoding="utf-8")


if __name__ == "__main__":
    main()
