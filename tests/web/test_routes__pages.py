"""/api/pages/*."""

from __future__ import annotations

import pytest

from tests.fakes.temporary_gateway import ADMIN, SHOP, call, record, store_records

NAMES = ("providers", "models", "projects", "keys", "playground", "settings", "costs", "latency")


@pytest.mark.parametrize("name", NAMES)
async def test_a_page_needs_the_admin_token_and_shows_no_secret(guarded, app_of, name):
    app = app_of(guarded)
    assert (await call(app, f"/api/pages/{name}")).status == 401
    assert (await call(app, f"/api/pages/{name}", SHOP)).status == 403
    answer = await call(app, f"/api/pages/{name}", ADMIN)
    assert answer.status == 200
    for secret in (ADMIN["authorization"], SHOP["authorization"], " gsk_0123456789abcdef"):
        assert secret.split()[-1].encode() not in answer.body


async def test_costs(gateway, app):
    await store_records(gateway, record(1), record(2, project="default"))
    body = (await call(app, "/api/pages/costs?project=shop&by=provider")).json
    assert body["costs"]["total"] == 0.25
    assert [(line["name"], line["total"]) for line in body["series"]["series"]] == [("groq", 0.25)]
    assert body["forecast"]["projects"]["shop"]["spent"] == 0.25
    assert (await call(app, "/api/pages/costs?period=all")).status == 422


async def test_latency_draws_the_model_that_was_asked_most(gateway, app):
    await store_records(gateway, record(1), record(2), record(3, model_id="sim/echo", provider="sim"))
    body = (await call(app, "/api/pages/latency")).json
    assert [line["model"] for line in body["lines"]] == ["groq/openai/gpt-oss-20b"]
    body = (await call(app, "/api/pages/latency?model=sim/echo&other=groq/openai/gpt-oss-20b&metric=latency")).json
    assert [entry["model"] for entry in body["histograms"]] == ["sim/echo", "groq/openai/gpt-oss-20b"]
    assert [entry["latency"]["count"] for entry in body["histograms"]] == [1, 2]
    assert body["ttfb_warning_ms"] == 1_000


async def test_settings_say_where_they_are_from(guarded, app_of):
    body = (await call(app_of(guarded), "/api/pages/settings", ADMIN)).json
    auth = {row["name"]: row["origin"] for section in body["sections"] if section["name"] == "auth" for row in section["values"]}
    assert auth["admin_token"].startswith("gw.yaml:")
