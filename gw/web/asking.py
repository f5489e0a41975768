"""Questions that change nothing: who would answer a request, and how a vendor's bill compares."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
import trio

from gw.admin.route_preview import RoutePreview, route_preview
from gw.gateway import Gateway
from gw.reconcile.compare import compare
from gw.reconcile.diff import THRESHOLD
from gw.web.operations import Field, Operation
from gw.web.request_body import json_reply, read_json
from gw.web.router import Reply, Request, RouteTable, fresh, shown

if TYPE_CHECKING:
    from quart import Blueprint, Response


class Bill(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A vendor's usage: `rows` of the canonical form, or the `content` of a file of it."""

    provider: str
    """openai, deepgram or cartesia."""
    rows: list[dict[str, str | float | int | None]] | None = None
    content: str | None = None
    format: Literal["csv", "json"] = "csv"
    """Of `content`."""
    start: str | None = None
    """First UTC day, as 2026-01-31."""
    end: str | None = None
    """Last UTC day, inclusive."""
    threshold: float = THRESHOLD
    """Percent of difference above which a row is flagged."""


class Figures(msgspec.Struct, kw_only=True):
    ours: float | None
    theirs: float | None
    diff: float
    percent: float | None


class Difference(msgspec.Struct, kw_only=True):
    model: str
    matched: Literal["both", "ours_only", "theirs_only"]
    units: dict[str, Figures]
    cost_usd: Figures
    requests: int | None
    n_requests: int | None
    credits: int | None
    flagged: bool
    cause: str


class Window(msgspec.Struct, kw_only=True):
    start: str | None
    end: str | None


class Reconciled(msgspec.Struct, kw_only=True):
    provider: str
    modality: str
    window: Window
    threshold: float
    rows: list[Difference]
    total_cost_usd: Figures
    flagged: int


ASKING = (
    Operation(
        id="route", method="GET", path="/api/route", tag="Dashboard",
        what="Who would answer a request now, and why each candidate would be tried or passed over.",
        query=(
            Field("modality", {"enum": ["stt", "llm", "tts"], "default": "llm"}, "What is asked for."),
            Field("model", {"type": "string"}, "As a caller would write it; empty is the project's default."),
            Field("project", {"type": "string", "default": "default"}, "Whose request it would be."),
        ),
        answers=(RoutePreview,), errors=(404, 422),
    ),
    Operation(
        id="reconcile", method="POST", path="/v1/reconcile", tag="Reports",
        what="Compare what was recorded with a vendor's usage export, model by model.",
        body=Bill, answers=(Reconciled,), errors=(422, 503),
        more="`rows` in the vendor's canonical form (docs/reconcile.md), or the `content` of such a file.",
    ),
)  # fmt: skip


def views(gateway: Gateway) -> RouteTable:
    routes = RouteTable()

    @routes.get("/api/route")
    async def who_would_answer(ask: Request) -> Reply:
        found = route_preview(
            gateway.live.catalog,
            gateway.limits.view(trio.current_time()),
            model=ask.query("model"),
            modality=ask.query_text("modality", "llm"),
            project=ask.query_text("project", "default"),
        )
        return shown(found)

    return routes


def blueprint(gateway: Gateway) -> Blueprint:
    from quart import Blueprint  # loaded with the first change

    routes = Blueprint("asking", __name__)

    @routes.post("/v1/reconcile")
    async def compare_bill() -> Response:
        bill = await read_json(Bill)
        await fresh(gateway)
        return json_reply(await reconcile(gateway, bill))

    return routes


async def reconcile(gateway: Gateway, bill: Bill) -> dict[str, object]:
    """Raises RequestError, StoreUnavailable."""
    suffix = bill.format if bill.content is not None else "json"
    with tempfile.TemporaryDirectory(prefix="gw-bill-") as folder:
        file = Path(folder) / f"usage.{suffix}"
        await trio.to_thread.run_sync(file.write_text, bill.content or json.dumps(bill.rows or []))
        report = await compare(
            gateway.store,
            gateway.live.catalog.providers,
            provider=bill.provider,
            file=file,
            start=bill.start,
            end=bill.end,
            threshold=bill.threshold,
        )
    return report.as_json()
