"""A complete gateway with a temporary database, from the text of a gw.yaml, and a client that speaks ASGI to an app."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import msgspec
import trio

from gw.config.parse import parse
from gw.gateway import FrontBank, Gateway, open_gateway
from gw.types.asgi import ASGIApp
from gw.types.usage import AttemptRecord, RequestRecord, Usage

DAY_S = 86_400
NOON = 20_000 * DAY_S + DAY_S // 2

YAML = """
providers:
  sim: {}
  groq: {api_key: gsk_0123456789abcdef}
  bare: {type: openai}
models:
  stt: {sim/tone: {}, groq/whisper-large-v3: {default_language: en}}
  llm: {sim/echo: {display_name: Echo, aliases: [parrot]}, groq/openai/gpt-oss-20b: {}}
  tts: {sim/tone: {}}
stacks:
  demo: {stt: sim/tone, llm: sim/echo, tts: sim/tone}
projects:
  shop: {name: The shop, daily_budget: 2.0, budget_action: block, default_stack: demo, tags: [a], accent: "#102030"}
fallbacks: {llm: [groq/openai/gpt-oss-20b, sim/echo]}
"""

WITH_AUTH = """
auth:
  admin_token: admin-token-8351026789
  keys: [{key: gwk_shop_8351026789, project: shop, name: till}]
"""
ADMIN = {"authorization": "Bearer admin-token-8351026789"}
SHOP = {"authorization": "Bearer gwk_shop_8351026789"}


@attrs.define
class SetClock:
    """A clock that stands still until it is set. Unix seconds."""

    at: float = NOON

    def now(self) -> float:
        return self.at


@asynccontextmanager
async def open_test_gateway(
    tmp_path: Path, text: str = YAML, clock: SetClock | None = None, *, secret: str = "", spares: int = 0,
    bank: FrontBank | None = None,
) -> AsyncIterator[Gateway]:  # fmt: skip
    """`bank`: counts what several gateways share."""
    settings = parse(text, file="gw.yaml", env={"GW_SECRET": secret}, data_dir=tmp_path)
    settings = attrs.evolve(settings, secret_folder=tmp_path / "config")
    async with open_gateway(settings, clock=clock or SetClock(), spares=spares, front_bank=bank) as gateway:
        yield gateway


def record(number: int = 1, **changes: object) -> RequestRecord:
    """Return a finished chat of today. `number` gives its id and its time."""
    fields: dict[str, object] = {
        "id": f"{number:032x}",
        "timestamp": NOON - 1_000.0 + number,
        "project": "shop",
        "modality": "llm",
        "model_id": "groq/openai/gpt-oss-20b",
        "provider": "groq",
        "requested_model": "groq/openai/gpt-oss-20b",
        "status": "success",
        "total_latency_ms": 400.0,
        "ttfb_ms": 100.0,
        "gateway_ms": 0.5,
        "cost_nusd": 250_000_000,
        "pricing_source": "config",
        "usage": Usage(input_tokens=10, cached_input_tokens=4, output_tokens=20, source="vendor"),
        "attempts": (
            AttemptRecord(
                model_id="groq/openai/gpt-oss-20b", outcome="ok", started_ms=0.1, duration_ms=399.0, ttfb_ms=99.0
            ),
        ),
        "stream": True,
    }
    return RequestRecord(**(fields | changes))


async def store_records(gateway: Gateway, *records: RequestRecord) -> None:
    """Finish these requests: their records, their cost in the ledger, their metrics."""
    for one in records:
        gateway.store.finish(one)
        gateway.metrics.observe(one)
        gateway.ledger.settle(gateway.ledger.reserve(one.project, 0), one.cost_nusd or 0)
    await gateway.store.flush()


@attrs.frozen
class Response:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def error(self) -> Any:
        return self.json["error"]


async def call(
    app: ASGIApp,
    target: str,
    headers: Mapping[str, str] | None = None,
    *,
    method: str = "GET",
    body: bytes = b"",
    client: str = "127.0.0.1",
    scheme: str = "http",
) -> Response:
    """Send one request; the app is cancelled after its last byte, as by a server that reads the next request."""
    raw_path, _, query = target.partition("?")
    fields = {"host": "127.0.0.1:8080"} | {name.lower(): value for name, value in (headers or {}).items()}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": scheme,
        "path": raw_path.replace("%2F", "/").replace("%2f", "/"),
        "raw_path": raw_path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in fields.items() if value],
        "client": (client, 50_000),
        "server": ("127.0.0.1", 8080),
        "extensions": {},
    }
    events = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Mapping[str, Any]] = []

    async def receive() -> Any:
        if events:
            return events.pop()
        await trio.sleep_forever()

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start, *parts = sent
    names = {name.decode().lower(): value.decode("latin-1") for name, value in start["headers"]}
    return Response(start["status"], names, b"".join(part.get("body", b"") for part in parts))
