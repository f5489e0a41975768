"""A gateway whose records are in PostgreSQL shows over HTTP what one on SQLite shows: every report, list and page."""

from __future__ import annotations

import re
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import pytest

from gw.admin.demo_history import sample_records
from gw.pricing.rate_tables import load_book
from gw.web.routes import TABLE
from tests.fakes import databases
from tests.fakes.running import open_running
from tests.fakes.temporary_gateway import ADMIN, NOON, WITH_AUTH, YAML, SetClock

SECRET = "a secret of thirty-two characters"
OF_THE_PROCESS = re.compile(
    r'"(?:uptime_\w+|cost_tracking\.\w+|db_path|csrf\w*|key|request_id)": ?(?:"[^"]*"|[\d.]+)|gw_uptime_seconds [\d.]+'
    r"|/[^\"]*/(?:sqlite|postgres)[^\"]*|key_[0-9a-f]{12}|gwk_[^\"]*"
)
"""What differs between any two gateways: times of the process, made-up keys and paths."""
NOT_COMPARED = ("/api/live", "/api/pages/settings")
"""A stream without an end, and the settings, in which the two differ."""
QUERIES = {
    "period": ("today", "all", "7d", f"custom&from={NOON - 90_000}&to={NOON - 7_000}"),
    "sort": ("-cost_usd", "total_latency_ms"), "by": ("provider", "model", "project"), "step": ("3600",), "limit": ("3",),
    "metric": ("errors", "cost", "latency"), "trouble": ("any", "interruption"), "status": ("error", "success"), "modality": ("tts",),
    "format": ("csv",), "q": ("0",), "other": ("1",), "entity_type": ("project",), "action": ("create",),
}  # fmt: skip
CHANGES = (
    ("POST", "/v1/providers", {"provider_id": "extra", "provider_type": "openai", "api_key": "sk-0123456789abcdef"}),
    ("POST", "/v1/projects", {"project_id": "books", "name": "Books", "daily_budget": 3}),
    ("POST", "/v1/models", {"modality": "llm", "provider_id": "extra", "model_name": "gpt-x"}),
    ("POST", "/v1/models", {"modality": "llm", "provider_id": "extra", "model_name": "gpt-y"}),
    ("POST", "/v1/keys", {"project": "books", "name": "till"}),
    ("PATCH", "/v1/projects/books", {"name": "More books"}),
    ("PUT", "/v1/fallbacks/tts", {"models": ["sim/tone"]}),
    ("DELETE", "/v1/models/extra%2Fgpt-y?confirm=true", None),
)


@pytest.fixture(params=databases.POSTGRES)
def url(request):
    yield databases.fresh_url()
    databases.remove_server()


@asynccontextmanager
async def both(folder, url, clock):
    async with AsyncExitStack() as opened:
        gateways = []
        for name, tracking in (("sqlite", ""), ("postgres", f"\ncost_tracking: {{database: {url!r}}}\n")):
            (folder / name).mkdir()
            text = YAML + WITH_AUTH + tracking
            gateways.append(await opened.enter_async_context(open_running(folder / name, text, clock, secret=SECRET)))
        yield gateways


def targets(records):
    """Yield every target that can be read, with every query field that it has, one at a time, and pages that follow others."""
    one = next(record for record in records if record.turn_id and record.status == "fallback")
    named = {
        "record_id": one.id, "session_id": one.session_id, "turn_id": one.turn_id, "model_id": "extra/gpt-x", "capture_id": one.session_id,
        "project_id": "books", "provider_id": "extra", "key_id": "key_none", "token_id": "token_none",
    }  # fmt: skip
    queries = QUERIES | {
        "project": (one.project,), "model": (one.model_id,), "provider": (one.provider,), "session": (one.session_id,),
        "turn": (one.turn_id,), "before": (one.id,), "error_code": ("timeout",), "entity_id": ("books",),
    }  # fmt: skip
    for route in TABLE.routes:
        if route.method != "GET" or route.handler is None or route.path in NOT_COMPARED:
            continue
        path = re.sub(r"\{(\w+)\}", lambda match: str(named[match[1]]).replace("/", "%2F"), route.path)
        yield path
        for field in route.query:
            yield from (f"{path}?{field.name}={value}" for value in queries.get(field.name, ()))
    yield f"/v1/logs?limit=4&before={one.id}&period=week&modality={one.modality}"
    yield f"/api/series?metric=cost&by=model&period=24h&project={one.project}"


def readable(answer):
    """Return what an answer says; sums of seconds to a millionth, since the two databases add fractions up in another order."""
    text = OF_THE_PROCESS.sub("", answer.body.decode())
    return answer.status, re.sub(r"\d+\.\d{7,}", lambda match: f"{float(match[0]):.6g}", text)


async def test_every_page_shows_the_same(url, tmp_path):
    made = sample_records(NOON, 2, book=load_book(tmp_path))
    records = [msgspec.structs.replace(one, project="shop" if number % 2 else "default") for number, one in enumerate(made)]
    async with both(tmp_path, url, SetClock(NOON)) as gateways:
        for one in gateways:
            assert await one.gateway.store.load(records) == len(records)
        for method, target, body in CHANGES:
            answers = [await one.ask(method, target, body, **ADMIN) for one in gateways]
            assert [answer.status < 300 for answer in answers] == [True, True], (target, answers[0].body)
        different, count = [], 0
        for target in targets(records):
            sqlite, postgres = [readable(await one.get(target, **ADMIN)) for one in gateways]
            count += 1
            if sqlite != postgres:
                different.append(target)
        assert different == []
        assert count > 150
