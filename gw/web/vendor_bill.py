"""`POST /v1/reconcile`: compares what was recorded with a vendor's usage export."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Literal

import msgspec
import trio

from gw.admin.request_models import read
from gw.reconcile.compare import compare
from gw.reconcile.diff import THRESHOLD, Reconciled
from gw.web.route import READ_LAG_S, Request, Route


class Bill(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A vendor's usage: `rows` of the canonical form, or the `content` of a file of it."""

    provider: str
    """openai, deepgram or cartesia."""
    rows: list[dict[str, str | float | int | None]] | None = None
    content: str | None = None
    format: Literal["csv", "json"] = "csv"
    """Format of `content`."""
    start: str | None = None
    """First UTC day, as 2026-01-31."""
    end: str | None = None
    """Last UTC day, inclusive."""
    threshold: float = THRESHOLD
    """Percent of difference above which a row is flagged."""


async def reconcile(request: Request) -> Reconciled:
    """Raises RequestError, StoreUnavailable."""
    bill, gateway = read(request.body, Bill), request.gateway
    suffix = bill.format if bill.content is not None else "json"
    with tempfile.TemporaryDirectory(prefix="gw-bill-") as folder:
        file = Path(folder) / f"usage.{suffix}"
        await trio.to_thread.run_sync(file.write_text, bill.content or json.dumps(bill.rows or []))
        return await compare(
            gateway.store,
            request.catalog.providers,
            provider=bill.provider,
            file=file,
            start=bill.start,
            end=bill.end,
            threshold=bill.threshold,
        )


ROUTES = (
    Route(
        "POST", "/v1/reconcile", "reconcile", "Compare what was recorded with a vendor's usage export, model by model.",
        reconcile, tag="Reports", lag_s=READ_LAG_S, body=Bill, answers=(Reconciled,), errors=(422, 503),
        notes="`rows` in the vendor's canonical form (docs/reconcile.md), or the `content` of such a file.",
    ),
)  # fmt: skip
