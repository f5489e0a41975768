"""Every figure of every period equals SQL over the records, for requests that went in over HTTP."""

from __future__ import annotations

import csv
import io
import json
from contextlib import closing
from datetime import datetime
from urllib.parse import quote

import apsw
import pytest

from gw.admin import logs
from tests.contract.test_numbers import CENT, cents, open_setup
from tests.fakes.temporary_gateway import NOON

HOUR, DAY_S = 3_600, 86_400
AT = NOON + 1_234.5
LENGTHS = {"15m": 900, "1h": HOUR, "24h": DAY_S, "7d": 7 * DAY_S, "30d": 30 * DAY_S}
AGES = (59 * DAY_S, 31.2 * DAY_S, 29.9 * DAY_S, 13 * DAY_S, 6.99 * DAY_S, 25 * HOUR, 23 * HOUR, 5_000, 3_599, 1_700, 901, 899, 61, 3)
"""Seconds before AT at which requests are sent: close to the edges of the periods and of those before."""


@pytest.fixture
async def setup(tmp_path, mock_clock):
    async with open_setup(tmp_path, mock_clock, AT - 60 * DAY_S) as opened:
        for number, age in enumerate(AGES):
            opened.running.clock.at = AT - age
            opened.north.first_ms = 100.0 * (number + 1)
            opened.north.usage = CENT if number % 2 else cents(number)
            opened.north.status = 503 if number % 5 == 4 else 200
            await opened.chat(x_gw_project="desk" if number % 3 else "default", x_gw_turn="=1+1" if number == 12 else "t")
            await opened.chat("south/unknown", x_gw_project="desk")
        opened.running.clock.at = AT
        await opened.json("/v1/costs")
        yield opened


def sql(setup, text, **bindings):
    with closing(apsw.Connection(str(setup.running.gateway.settings.cost_tracking.db_path))) as db:
        return list(db.execute(text, bindings))


SUMS = """
select count(*), coalesce(sum(status = 'error'), 0), coalesce(sum(status = 'fallback'), 0), coalesce(sum(cost_nusd), 0) / 1e9,
       coalesce(sum(cost_nusd is null), 0) from requests
where timestamp >= :since and timestamp < :until and (:project is null or project = :project)"""


async def test_every_period_and_the_one_before_equal_sql(setup, mock_clock):
    cells = 0
    for name, length in LENGTHS.items():
        for project in (None, "desk"):
            query = f"period={name}" + (f"&project={project}" if project else "")
            report = (await setup.json(f"/api/overview?{query}"))["compared"]
            for part, until in ((report["current"], AT), (report["before"], AT - length)):
                assert (part["from"], part["to"]) == (pytest.approx(until - length), pytest.approx(until))
                [expected] = sql(setup, SUMS, since=part["from"], until=part["to"] + (part["to"] == AT), project=project)
                shown = (part["requests"], part["errors"], part["fallbacks"], pytest.approx(part["cost"]), part["unpriced"])
                assert expected == shown, (name, project)
                cells += 1
            course = report["course"]
            assert sum(course["requests"]) == report["current"]["requests"]
            assert sum(course["errors"]) == report["current"]["errors"]
            assert sum(course["cost"]) == pytest.approx(report["current"]["cost"])
            page = await setup.json(f"/api/pages/costs?{query}")
            assert (page["costs"]["requests"], page["before"]["requests"]) == (report["current"]["requests"], report["before"]["requests"])
            assert page["costs"]["total"] == pytest.approx(report["current"]["cost"])
            assert sum(line["total"] for line in page["series"]["series"]) == pytest.approx(page["costs"]["total"])
            counts = await setup.json(f"/v1/latency?{query}")
            assert sum(row["request_count"] for row in counts.values()) == report["current"]["requests"]
    assert cells == 20


async def test_custom_periods_equal_sql(setup, mock_clock):
    for since, until in ((AT - 40 * DAY_S, AT - 6.5 * DAY_S), (AT - 5_001, AT - 61), (AT - 902, AT - 900), (AT - 4, AT)):
        for project in (None, "desk"):
            query = f"from={since}&to={until}" + (f"&project={project}" if project else "")
            costs = await setup.json(f"/v1/costs?{query}")
            [expected] = sql(setup, SUMS, since=since, until=until, project=project)
            assert (costs["period"], costs["from"], costs["to"]) == ("custom", since, until)
            assert (costs["requests"], pytest.approx(costs["total"]), costs["unpriced_requests"]) == (expected[0], expected[3], expected[4])
            logged = await setup.json(f"/v1/logs?limit=1000&{query}")
            assert len(logged) == expected[0]
    iso = quote(datetime.fromtimestamp(AT - 5_001).astimezone().isoformat())
    assert (await setup.json(f"/v1/costs?from={iso}"))["requests"] == (await setup.json(f"/v1/costs?from={AT - 5_001}"))["requests"]


async def test_points_as_fine_as_ten_seconds_equal_sql(setup, mock_clock):
    steps = {"15m": 10, "1h": 10, "24h": 60, "7d": HOUR, "30d": DAY_S}
    for name, step in steps.items():
        report = await setup.json(f"/api/series?metric=ttfb&period={name}")
        assert report["step_s"] == step
        line = report["series"][0]
        expected = sql(
            setup,
            f"select cast(timestamp as integer) / {step} * {step}, count(ttfb_ms), max(ttfb_ms) from requests "
            "where timestamp >= :since group by 1 having count(ttfb_ms) > 0",
            since=AT - LENGTHS[name],
        )
        shown = [row for row in zip(report["times"], line["count"], line["p99"], strict=True) if row[1]]
        assert shown == [(at, count, pytest.approx(slowest, rel=0.03)) for at, count, slowest in expected]
        for metric, column in (("requests", "count(*)"), ("errors", "sum(status = 'error')")):
            report = await setup.json(f"/api/series?metric={metric}&period={name}&step={step}&by=model")
            expected = sql(
                setup,
                f"select model_id, {column} from requests where timestamp >= :since group by 1",
                since=AT - LENGTHS[name],
            )
            assert {line["name"]: pytest.approx(line["total"]) for line in report["series"]} == dict(expected), (name, metric)
            assert all(sum(line["values"]) == pytest.approx(line["total"]) for line in report["series"])


async def test_all_rows_as_csv_and_json_with_iso_times(setup, mock_clock):
    [(count,)] = sql(setup, "select count(*) from requests")
    records = json.loads((await setup.running.get("/v1/logs?format=json")).body)
    answer = await setup.running.get("/v1/logs?format=csv")
    rows = list(csv.DictReader(io.StringIO(answer.body.decode())))
    assert (len(records), len(rows), count) == (2 * len(AGES),) * 3
    assert "content-length" not in answer.headers, "streamed"
    assert answer.headers["content-disposition"] == 'attachment; filename="requests.csv"'
    known = dict(sql(setup, "select id, timestamp from requests"))
    for row in (*records, *rows):
        assert row["timestamp"].endswith("Z")
        assert datetime.fromisoformat(row["timestamp"]).timestamp() == pytest.approx(known[row["id"]], abs=0.001)
    assert {row["turn_id"] for row in rows} >= {"'=1+1"}, "no cell is a formula"
    assert {row["turn_id"] for row in records} >= {"=1+1"}
    some = await setup.running.get("/v1/logs?format=json&period=1h&project=desk&limit=3")
    assert len(some.json) == 3
    for wrong in ("xml", "", "csv&before=nothing", "csv&limit=0", "csv&period=x", "csv&to=", "csv&from=", "json&from=1&to="):
        assert (await setup.running.get(f"/v1/logs?format={wrong}")).status == 422, wrong


async def test_the_audit_log_as_a_file(setup, mock_clock):
    body = {"project_id": "till", "name": "=cmd"}
    assert (await setup.running.ask("POST", "/v1/projects", body)).status == 200
    (entry,) = (await setup.running.get("/v1/audit-log?format=json")).json
    (row,) = csv.DictReader(io.StringIO((await setup.running.get("/v1/audit-log?format=csv")).body.decode()))
    assert entry["timestamp"] == row["timestamp"]
    assert datetime.fromisoformat(row["timestamp"]).timestamp() == pytest.approx(setup.running.clock.at, abs=1)
    assert json.loads(row["changes"])["name"] == entry["changes"]["name"]
    assert (await setup.running.ask("POST", "/v1/projects", {**body, "project_id": "bar"})).status == 200
    assert [one["entity_id"] for one in (await setup.running.get("/v1/audit-log?format=json&limit=1")).json] == ["bar"]
    assert (await setup.running.get("/v1/audit-log?format=json&limit=x")).status == 422


@pytest.mark.parametrize("path", ["/v1/costs", "/v1/latency", "/api/overview", "/api/series", "/api/reliability"])
async def test_a_time_is_never_empty(path, setup):
    for query in ("to=", "from=", "from=1&to="):
        answer = await setup.running.get(f"{path}?{query}")
        assert (answer.status, answer.json["error"]["param"]) == (422, "from" if query in ("to=", "from=") else "to"), query


@pytest.mark.parametrize("path", ["/v1/costs", "/v1/latency", "/api/logs", "/v1/logs", "/v1/sessions", "/api/turns", "/v1/audit-log"])
async def test_an_empty_period_is_refused(path, setup):
    for query in ("period=", "period=&from=2026-01-01T00:00:00Z"):
        answer = await setup.running.get(f"{path}?{query}")
        assert (answer.status, answer.json["error"]["param"]) == (422, "period"), query


@pytest.mark.parametrize("path", ["/api/series?metric=cost", "/v1/first-audio?period=today"])
async def test_an_empty_step_is_refused(path, setup):
    answer = await setup.running.get(f"{path}&step=")
    assert (answer.status, answer.json["error"]["param"]) == (422, "step")


async def test_the_log_in_the_order_of_a_figure_equals_sql(setup, mock_clock):
    columns = {"ttfb_ms": "ttfb_ms", "total_latency_ms": "total_latency_ms", "cost_usd": "cost_nusd"}
    for name, column in columns.items():
        for sign, direction in (("-", "desc"), ("", "asc")):
            month = ("&project=desk&period=30d", f"project = 'desk' and timestamp >= {AT - LENGTHS['30d']}")
            for query, condition in (("", "true"), month):
                by = f"{column} is null, {column} {direction}, timestamp desc, seq desc"
                expected = [row for (row,) in sql(setup, f"select id from requests where {condition} order by {by}")]
                seen, before = [], ""
                while page := await setup.json(f"/v1/logs?limit=5&sort={sign}{name}&before={before}{query}"):
                    seen += [record["id"] for record in page]
                    before = seen[-1]
                assert seen == expected != [], (name, sign, query)
    for refused in ("sort=colour", "sort=-cost_usd&before=none", "sort=-cost_usd&format=csv"):
        assert (await setup.running.get(f"/v1/logs?{refused}")).status == 422, refused


async def test_too_many_records_are_not_sorted_by_half(setup, mock_clock, monkeypatch):
    monkeypatch.setattr(logs, "MOST_SORTED", 20)
    answer = await setup.running.get("/v1/logs?sort=-cost_usd")
    assert (answer.status, "more than 20 requests" in answer.error["message"]) == (422, True)
    assert len(await setup.json("/v1/logs?sort=-cost_usd&period=7d")) <= 20
