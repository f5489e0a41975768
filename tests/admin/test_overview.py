"""The figures of the dashboard's first page."""

from __future__ import annotations

from pathlib import Path

import pytest

from gw.admin.overview import overview
from tests.fakes.answers import as_json
from tests.fakes.temporary_gateway import DAY_S, NOON, open_test_gateway, record, store_records


@pytest.fixture
async def gateway(tmp_path: Path):
    async with open_test_gateway(tmp_path) as opened:
        yield opened


async def test_overview(gateway):
    yesterday = record().timestamp - DAY_S
    await store_records(
        gateway,
        record(1),
        record(2, status="error", cost_nusd=0),
        record(3, status="fallback"),
        record(4, status="cancelled", cost_nusd=None),
        record(5, timestamp=yesterday),
        record(6, timestamp=yesterday, project="default"),
    )
    async def shown(project=None):
        page = await overview(gateway.store, gateway.current.catalog, NOON, spent=lambda name: 0, active=0, project=project)
        return as_json(page)

    assert {
        "total_requests": 6,
        "total_cost_today": 0.5,
        "total_cost_all": 1.0,
        "active_models": 4,
        "providers_configured": 2,
        "requests_today": 4,
        "errors_today": 1,
        "fallbacks_today": 1,
        "cancelled_today": 1,
        "unpriced_today": 1,
    }.items() <= (await shown()).items()
    shop = await shown("shop")
    assert (shop["total_requests"], shop["total_cost_all"], shop["active_models"]) == (5, 0.75, 2)
