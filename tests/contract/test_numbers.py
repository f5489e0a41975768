"""Every reported figure, from a request over HTTP through the data plane to the report.

Time advances only by what the fake vendors spend, and the prices are round numbers, so every figure is known in advance.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from prometheus_client.parser import text_string_to_metric_families

from gw.store.writer import GATHER_S
from gw.types.audio import AudioFormat
from gw.types.usage import Usage
from gw.wire import wav
from tests.fakes.running import Running, open_running
from tests.fakes.serve import serve_asgi
from tests.fakes.temporary_gateway import NOON, SetClock
from tests.fakes.vendors.openai import FakeOpenAI

DAY_S = 86_400
MIDNIGHT = NOON + DAY_S // 2
DAY = NOON // DAY_S
YAML = """
providers:
  north: {{type: openai, api_key: sk-north-0123456789, base_url: "{north}/v1"}}
  south: {{type: openai, api_key: sk-south-0123456789, base_url: "{south}/v1"}}
models:
  stt: {{north/ear: {{price: {{unit: minute, usd: 0.6}}}}}}
  llm:
    north/big: {{price: {{unit: 1M_tokens, input: 2, output: 10}}}}
    south/small: {{price: {{unit: 1M_tokens, input: 1, output: 5}}}}
    south/unknown:
  tts: {{south/mouth: {{price: {{unit: 1M_characters, usd: 100}}}}}}
projects:
  shop: {{daily_budget: 1.0, budget_action: block}}
  desk: {{daily_budget: 1.0, budget_action: warn}}
fallbacks: {{llm: [north/big, south/small]}}
routing: {{breaker: {{failures: 100}}}}
"""
CENT = Usage(input_tokens=1_000, output_tokens=800, source="vendor")
"""Costs $0.01 at north/big and half of it at south/small."""
SAMPLES = bytes(2 * 16_000 * 3)
"""Three seconds."""


def cents(number: float) -> Usage:
    """Return a usage that costs so many cents at north/big."""
    return Usage(output_tokens=round(number * 1_000), source="vendor")


@attrs.define(kw_only=True)
class TimedVendor(FakeOpenAI):
    """Spends `first_ms` before the first byte of an answer, and `remaining_ms` before its end, once `first_received` is set."""

    spend: Callable[[float], None]
    first_ms: float = 0.0
    remaining_ms: float = 0.0
    first_received: trio.Event | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        started = False

        async def timed(message: Any) -> None:
            nonlocal started
            if message["type"] == "http.response.body":
                if not started:
                    self.spend(self.first_ms)
                elif not message["more_body"] and self.first_received is not None:
                    await self.first_received.wait()
                    self.spend(self.remaining_ms)
                started = True
            await send(message)

        await super().__call__(scope, receive, timed)


@attrs.frozen(kw_only=True)
class Setup:
    """A gateway and its two vendors. `spend` advances both clocks; `wait_for_commits` trio's until the next commit is due."""

    running: Running
    north: TimedVendor
    south: TimedVendor
    spend: Callable[[float], None]
    wait_for_commits: Callable[[], None]

    async def chat(self, model: str = "north/big", **headers: str) -> Any:
        body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
        return await self.running.ask("POST", "/v1/chat/completions", body, **headers)

    async def streamed(self, model: str, **headers: str) -> str:
        """Send a streamed chat, read it piece by piece, and return its request id."""
        body = b'{"model": "%s", "stream": true, "messages": [{"role": "user", "content": "hi"}]}' % model.encode()
        vendor = self.north if model.startswith("north") else self.south
        received = vendor.first_received = trio.Event()
        fields = {"content_type": "application/json", **headers}
        with trio.fail_after(60):
            async with self.running.open("POST", "/v1/chat/completions", body, **fields) as response:
                while await response.receive_some():
                    received.set()
        vendor.first_received = None
        request_id: str = response.header(b"x-request-id").decode()
        return request_id

    async def transcribe(self, **headers: str) -> Any:
        file = wav.header(AudioFormat(encoding="pcm_s16le", sample_rate_hz=16_000), len(SAMPLES)) + SAMPLES
        parts = [
            b'--b\r\ncontent-disposition: form-data; name="model"\r\n\r\nnorth/ear\r\n',
            b'--b\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\ncontent-type: audio/wav\r\n\r\n',
            file,
            b"\r\n--b--\r\n",
        ]
        headers = {"content_type": "multipart/form-data; boundary=b", **headers}
        return await self.running.ask("POST", "/v1/audio/transcriptions", b"".join(parts), **headers)

    async def speak(self, text: str, **headers: str) -> Any:
        body = {"model": "south/mouth", "input": text, "voice": "alloy", "response_format": "pcm"}
        return await self.running.ask("POST", "/v1/audio/speech", body, **headers)

    async def json(self, target: str) -> Any:
        self.wait_for_commits()
        answer = await self.running.get(target)
        assert answer.status == 200, answer.body
        return answer.json


@asynccontextmanager
async def open_setup(tmp_path: Any, mock_clock: trio.testing.MockClock, at: float = NOON) -> AsyncIterator[Setup]:
    clock = SetClock(at)

    def spend(ms: float) -> None:
        clock.at += ms / 1_000
        mock_clock.jump(ms / 1_000)

    def wait_for_commits() -> None:
        mock_clock.jump(GATHER_S)

    north, south = TimedVendor(spend=spend, usage=CENT), TimedVendor(spend=spend, usage=CENT)
    async with trio.open_nursery() as nursery:
        places = {name: await nursery.start(partial(serve_asgi, app)) for name, app in (("north", north), ("south", south))}
        async with open_running(tmp_path, YAML.format(**places), clock) as running:
            yield Setup(running=running, north=north, south=south, spend=spend, wait_for_commits=wait_for_commits)
        nursery.cancel_scope.cancel()


@pytest.fixture
async def setup(tmp_path, mock_clock):
    async with open_setup(tmp_path, mock_clock) as opened:
        yield opened


async def send_mixed_requests(setup: Setup) -> None:
    """Send three chats for the shop, speech both ways for the desk, and a chat with a model without a price."""
    await setup.chat("north/big", x_gw_project="shop")
    await setup.chat("north/big", x_gw_project="shop")
    await setup.chat("south/small", x_gw_project="shop")
    await setup.transcribe(x_gw_project="desk")
    await setup.speak("ten chars.", x_gw_project="desk")
    await setup.chat("south/unknown")


def cost(usd: float, requests: int) -> dict[str, float]:
    return {"cost": pytest.approx(usd, abs=1e-12), "requests": requests}


def ms(value: float) -> Any:
    """Compare within the rounding errors of sums."""
    return pytest.approx(value, abs=0.01)


BY_MODEL = {
    "north/big": cost(0.02, 2),
    "south/small": cost(0.005, 1),
    "north/ear": cost(0.03, 1),
    "south/mouth": cost(0.001, 1),
    "south/unknown": cost(0, 1),
}


@pytest.mark.parametrize("path", ["/v1/costs", "/api/costs"])
async def test_costs_by_provider_model_and_project(setup, mock_clock, path):
    await send_mixed_requests(setup)
    report = await setup.json(path)
    assert report["total"] == pytest.approx(0.056)
    assert (report["requests"], report["unpriced_requests"]) == (6, 1)
    assert report["by_provider"] == {"north": cost(0.05, 3), "south": cost(0.006, 3)}
    assert report["by_model"] == BY_MODEL
    assert report["by_project"] == {"shop": cost(0.025, 3), "desk": cost(0.031, 2), "default": cost(0, 1)}
    shop = await setup.json(path + "?project=shop")
    assert (shop["total"], shop["by_provider"]) == (pytest.approx(0.025), {"north": cost(0.02, 2), "south": cost(0.005, 1)})


async def test_the_cost_header_equals_the_logged_cost(setup, mock_clock):
    answer = await setup.chat()
    record = await setup.json(f"/v1/requests/{answer.headers['x-request-id']}")
    assert float(answer.headers["x-gw-cost-usd"]) == record["cost_usd"] == 0.01
    assert (record["input_units"], record["output_units"], record["unit"]) == (1_000, 800, "tokens")
    [line] = await setup.json("/v1/logs")
    assert line.items() <= record.items()
    assert record["timestamp"] == NOON
    assert record["pricing_source"] == "config"


async def test_units_of_speech(setup, mock_clock):
    await setup.transcribe()
    await setup.speak("ten chars.")
    speech, transcript = await setup.json("/v1/logs")
    assert (transcript["input_units"], transcript["unit"], transcript["cost_usd"]) == (3.0, "audio_seconds", 0.03)
    assert (speech["input_units"], speech["unit"], speech["cost_usd"]) == (10, "characters", 0.001)


async def test_latency_percentiles_of_a_model(setup, mock_clock):
    for n in range(1, 21):
        setup.north.first_ms = 10.0 * n
        await setup.chat(x_gw_project="desk")
    model = (await setup.json("/v1/latency"))["north/big"]
    assert (model["avg_ttfb_ms"], model["avg_latency_ms"], model["request_count"]) == (ms(105), ms(105), 20)
    p50, p99 = pytest.approx(100, rel=0.03), pytest.approx(200, rel=0.03)
    near = {"p50": p50, "p95": pytest.approx(190, rel=0.03), "p99": p99}
    assert model["ttfb_percentiles"] == model["latency_percentiles"] == near
    assert (await setup.json("/api/latency"))["north/big"] == model
    spread = await setup.json("/api/histogram?model=north/big")
    assert (spread["ttfb"]["count"], spread["ttfb"]["avg_ms"]) == (20, ms(105))
    assert sum(bucket["count"] for bucket in spread["ttfb"]["buckets"]) == 20
    assert spread["latency"]["percentiles"] == near
    [line] = (await setup.json("/api/series?metric=ttfb&by=model"))["series"]
    assert (line["count"][-1], line["p50"][-1], line["p99"][-1]) == (20, p50, p99)
    hours = (await setup.json("/api/overview"))["hours"]
    assert hours["ttfb_p50"][-1] == p50


async def test_time_to_the_first_byte_and_to_the_last_differ_in_a_stream(setup, mock_clock):
    setup.north.first_ms, setup.north.remaining_ms = 120.0, 380.0
    record_id = await setup.streamed("north/big")
    record = await setup.json(f"/v1/requests/{record_id}")
    assert (record["ttfb_ms"], record["total_latency_ms"], record["stream"]) == (ms(120), ms(500), True)
    [attempt] = record["attempts"]
    assert (attempt["ttfb_ms"], attempt["duration_ms"], attempt["outcome"]) == (ms(120), ms(500), "ok")
    model = (await setup.json("/v1/latency"))["north/big"]
    assert (model["avg_ttfb_ms"], model["avg_latency_ms"]) == (ms(120), ms(500))
    assert model["ttfb_percentiles"]["p50"] == pytest.approx(120, rel=0.03)
    assert model["latency_percentiles"]["p50"] == pytest.approx(500, rel=0.03)


@pytest.mark.parametrize(
    ("spent", "status", "share"), [(79, "ok", 0.79), (80, "warning", 0.8), (99, "warning", 0.99), (100, "exceeded", 1.0)]
)
async def test_budget_status(setup, mock_clock, spent, status, share):
    setup.north.usage = cents(spent)
    assert (await setup.chat(x_gw_project="shop")).status == 200
    shop = await setup.json("/v1/projects/shop")
    assert (shop["today_spend"], shop["budget_status"]) == (share, status)
    assert shop["today"] == {"cost_today": share, "requests_today": 1}
    assert shop["costs_today"] == {
        "total": share, "by_provider": {"north": cost(share, 1)}, "by_model": {"north/big": cost(share, 1)},
    }  # fmt: skip
    budget = next(b for b in (await setup.json("/api/overview"))["budgets"] if b["project"] == "shop")
    assert (budget["spent"], budget["share"], budget["budget_status"]) == (share, share, status)
    stats = (await setup.json("/v1/projects"))["stats"]
    assert stats["shop"] == {"cost_today": share, "requests_today": 1}
    assert (await setup.chat(x_gw_project="shop")).status == (402 if status == "exceeded" else 200)


async def test_a_blocked_request_costs_nothing_and_is_logged(setup, mock_clock):
    setup.north.usage = cents(100)
    await setup.chat(x_gw_project="shop")
    calls = len(setup.north.ledger)
    blocked = await setup.chat(x_gw_project="shop")
    assert (blocked.status, blocked.error["gw"]["spent"], blocked.error["gw"]["daily_budget"]) == (402, 1.0, 1.0)
    assert len(setup.north.ledger) == calls
    newest = (await setup.json("/v1/logs"))[0]
    assert (newest["status"], newest["error_code"], newest["cost_usd"]) == ("error", "budget_exceeded", 0.0)
    assert (await metrics(setup))["gw_budget_blocked_total", ()] == 1.0


async def test_a_warning_budget_goes_on(setup, mock_clock):
    setup.north.usage = cents(100)
    for _ in range(2):
        assert (await setup.chat(x_gw_project="desk")).status == 200
    desk = await setup.json("/v1/projects/desk")
    assert (desk["today_spend"], desk["budget_status"]) == (2.0, "exceeded")


async def test_utc_midnight(setup, mock_clock):
    setup.running.clock.at = MIDNIGHT - 60
    setup.north.usage = cents(100)
    assert (await setup.chat(x_gw_project="shop")).status == 200
    assert (await setup.chat(x_gw_project="shop")).status == 402
    setup.running.clock.at = MIDNIGHT
    shop = await setup.json("/v1/projects/shop")
    assert (shop["today_spend"], shop["budget_status"]) == (0.0, "ok")
    assert shop["today"] == {"cost_today": 0.0, "requests_today": 0}
    setup.north.usage = CENT
    assert (await setup.chat(x_gw_project="shop")).status == 200
    assert (await setup.json("/v1/projects/shop"))["today_spend"] == 0.01
    totals = {period: (await setup.json(f"/v1/costs?period={period}"))["total"] for period in ("today", "week", "month", "all")}
    assert totals == {"today": 0.01, "week": 1.01, "month": 1.01, "all": 1.01}
    overview = await setup.json("/api/overview?project=shop")
    assert (overview["total_cost_today"], overview["total_cost_all"], overview["total_requests"]) == (0.01, 1.01, 3)
    assert (overview["requests_today"], overview["errors_today"]) == (1, 0)
    report = await setup.json("/api/series?metric=cost&period=week&project=shop")
    assert report["series"][0]["values"] == [0, 0, 0, 0, 0, 1.0, 0.01]


async def test_a_cost_belongs_to_the_day_its_request_began_on(setup, mock_clock):
    setup.running.clock.at = MIDNIGHT - 1
    setup.north.usage, setup.north.first_ms = cents(50), 2_000.0
    assert (await setup.chat(x_gw_project="shop")).status == 200
    assert setup.running.clock.at == MIDNIGHT + 1
    assert (await setup.json("/v1/projects/shop"))["today_spend"] == 0.0
    assert (await setup.json("/v1/costs"))["total"] == 0.0
    assert (await setup.json("/v1/costs?period=week"))["total"] == 0.5


async def test_memory_and_disk_agree_after_a_restart(tmp_path, mock_clock):
    async with open_setup(tmp_path, mock_clock) as setup:
        setup.north.usage = cents(100)
        await setup.chat(x_gw_project="shop")
        before = [(await setup.json(path)) for path in ("/v1/projects/shop", "/v1/costs?period=all", "/v1/latency")]
    async with open_setup(tmp_path, mock_clock, NOON + 60) as setup:
        after = [(await setup.json(path)) for path in ("/v1/projects/shop", "/v1/costs?period=all", "/v1/latency")]
        assert (before[1].pop("to"), after[1].pop("to")) == (NOON, NOON + 60)
        assert after == before
        assert (await setup.chat(x_gw_project="shop")).status == 402


async def test_overview(setup, mock_clock):
    await send_mixed_requests(setup)
    report = await setup.json("/api/overview")
    assert (report["total_requests"], report["requests_today"], report["unpriced_today"]) == (6, 6, 1)
    assert report["total_cost_today"] == report["total_cost_all"] == report["today"]["cost"] == pytest.approx(0.056)
    assert (report["active_models"], report["providers_configured"], report["active_requests"]) == (5, 2, 0)
    assert (report["hours"]["requests"][-1], report["hours"]["cost"][-1]) == (6, pytest.approx(0.056))
    assert report["hours"]["times"][-1] == NOON
    assert report["yesterday"]["requests"] == 0
    setup.running.clock.at += DAY_S + 1
    assert (await setup.json("/api/overview"))["yesterday"]["requests"] == 6
    shop = await setup.json("/api/overview?project=shop")
    assert (shop["total_requests"], shop["total_cost_all"], shop["total_cost_today"]) == (3, pytest.approx(0.025), 0.0)


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("provider", {"north": 0.05, "south": 0.006}),
        ("project", {"shop": 0.025, "desk": 0.031, "default": 0.0}),
        ("modality", {"llm": 0.025, "stt": 0.03, "tts": 0.001}),
        ("none", {"": 0.056}),
    ],
)
async def test_series(setup, mock_clock, by, expected):
    await send_mixed_requests(setup)
    report = await setup.json(f"/api/series?metric=cost&by={by}")
    assert {line["name"]: line["values"][-1] for line in report["series"]} == pytest.approx(expected)
    assert {line["name"]: line["total"] for line in report["series"]} == pytest.approx(expected)
    counted = await setup.json("/api/series?metric=requests&by=none")
    assert counted["series"][0]["total"] == 6
    assert (len(report["times"]), report["times"][-1]) == (13, NOON)


async def test_forecast(setup, mock_clock):
    """A cent a day for a week, with half of today over: the forecast continues that for the remaining month."""
    for day in range(-7, 1):
        setup.running.clock.at = NOON + day * DAY_S
        setup.north.usage = cents(1 if day else 0.5)
        await setup.chat(x_gw_project="shop")
    report = await setup.json("/api/forecast")
    month = report["projects"]["shop"]
    assert month["spent"] == pytest.approx(0.01 * (report["day"] - 1 if report["day"] <= 7 else 7) + 0.005)
    assert month["expected"] == pytest.approx(month["spent"] + 0.005 + 0.01 * (report["days"] - report["day"]))
    assert month["low"] == month["high"] == month["expected"]
    assert (month["budget"], month["over_budget"]) == (report["days"] * 1.0, False)
    assert report["total"] == report["budgeted"] == {**month, "budget": report["days"] * 2.0}  # with that of the desk


async def test_a_forecast_compares_budgets_with_those_who_have_them(setup, mock_clock):
    setup.north.usage = cents(20_000)
    await setup.chat(x_gw_project="default")
    report = await setup.json("/api/forecast")
    assert (report["total"]["budget"], report["total"]["over_budget"]) == (None, False)
    assert report["total"]["spent"] == pytest.approx(200)
    budgeted = report["budgeted"]
    assert (budgeted["spent"], budgeted["budget"], budgeted["over_budget"]) == (0, report["days"] * 2.0, False)
    setup.north.usage = cents(99)
    await setup.chat(x_gw_project="desk")
    setup.running.clock.at += DAY_S
    report = await setup.json("/api/forecast")
    assert report["budgeted"]["over_budget"] is (report["budgeted"]["expected"] > report["days"] * 2.0)
    assert report["budgeted"]["spent"] == report["projects"]["desk"]["spent"] == pytest.approx(0.99)
    assert (await setup.json("/api/forecast?project=default"))["budgeted"] is None


async def test_a_turn_as_a_waterfall(setup, mock_clock):
    setup.north.first_ms, setup.south.first_ms = 150.0, 90.0
    turn = {"x_gw_turn": "turn-1", "x_gw_session": "call-1", "x_gw_project": "desk"}
    await setup.transcribe(**turn)
    setup.spend(50)
    await setup.chat("north/big", **turn)
    await setup.speak("ten chars.", **turn)
    [summary] = await setup.json("/api/turns")
    report = await setup.json("/api/turns/turn-1")
    assert summary.items() <= report.items()
    assert (report["session_id"], report["project"], report["requests"], report["errors"]) == ("call-1", "desk", 3, 0)
    assert report["cost_usd"] == pytest.approx(0.041)
    times = [(stage["modality"], stage["start_ms"], stage["ttfb_ms"], stage["total_ms"]) for stage in report["stages"]]
    assert times == [("stt", 0.0, ms(150), ms(150)), ("llm", ms(200), ms(150), ms(150)), ("tts", ms(350), ms(90), ms(90))]
    assert (report["first_audio_ms"], report["duration_ms"]) == (ms(440), ms(440))
    assert report["gaps"] == [{"kind": "end_of_turn", "start_ms": ms(150), "duration_ms": ms(50)}]
    assert sum(gap["duration_ms"] for gap in report["gaps"]) + sum(total for *_, total in times) == ms(440)
    [bar] = report["stages"][1]["attempts"]
    assert (bar["start_ms"], bar["wait_ms"], bar["stream_ms"], bar["outcome"]) == (ms(200), ms(150), 0.0, "ok")


async def test_reliability_and_a_fallback(setup, mock_clock):
    await setup.chat("north/big")
    setup.north.status = [503]
    setup.north.first_ms, setup.south.first_ms = 30.0, 70.0
    answer = await setup.chat("north/big")
    assert answer.headers["x-gw-model"] == "south/small"
    report = await setup.json("/api/reliability")
    providers = {entry["provider"]: entry for entry in report["providers"]}
    none = {"ok": 0, "failed": 0, "rate_limited": 0, "skipped": 0, "cancelled": 0}
    assert providers["north"]["totals"] == {**none, "ok": 1, "failed": 1}
    assert (providers["north"]["availability"], providers["north"]["last_error"]["timestamp"]) == (0.5, NOON)
    assert providers["south"]["totals"] == {**none, "ok": 1}
    assert providers["north"]["bars"]["failed"][-1] == 1
    [move] = report["fallbacks"]
    assert (move["from"], move["to"], move["count"]) == ("north/big", "south/small", 1)
    record = await setup.json(f"/v1/requests/{answer.headers['x-request-id']}")
    assert (record["status"], record["fallback_from"], record["cost_usd"]) == ("fallback", "north/big", 0.005)
    assert [a["duration_ms"] for a in record["attempts"]] == [ms(30), ms(70)]
    assert (record["ttfb_ms"], record["total_latency_ms"]) == (ms(100), ms(100))
    assert (await setup.json("/api/overview"))["fallbacks_today"] == 1


async def metrics(setup: Setup) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = (await setup.running.get("/v1/metrics")).body.decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_metrics(setup, mock_clock):
    setup.north.first_ms = 200.0
    await send_mixed_requests(setup)
    setup.spend(1_000)
    report = await metrics(setup)
    assert report["gw_uptime_seconds", ()] == pytest.approx(1.0 + 0.2 * 3)
    assert report["gw_providers_configured", ()] == 2
    assert report["gw_cost_usd_total", (("period", "today"),)] == pytest.approx(0.056)
    assert report["gw_requests_total", (("provider", "north"),)] == 3
    assert report["gw_cost_usd_total", (("provider", "north"),)] == pytest.approx(0.05)
    assert report["gw_cost_usd_total", (("provider", "south"),)] == pytest.approx(0.006)
    sums = {
        labels["model"]: (value, report["gw_time_to_first_byte_seconds_count", key])
        for (name, key), value in report.items()
        if name == "gw_time_to_first_byte_seconds_sum" and (labels := dict(key))
    }
    assert sums["north/big"] == (pytest.approx(0.4), 2)
    assert report["gw_requests_in_flight", ()] == 0


async def pass_an_hour(setup: Setup, mock_clock: trio.testing.MockClock) -> None:
    """Advance the clock by an hour and let the writer's thread finish what is due."""
    mock_clock.jump(3_601)
    await trio.testing.wait_all_tasks_blocked()
    await setup.running.gateway.store.load(())


async def pass_days(setup: Setup, mock_clock: trio.testing.MockClock, days: int) -> None:
    """Advance the calendar, with an hour of running a day: retention does not believe a clock that leaps by months."""
    for _ in range(days):
        setup.running.clock.at += DAY_S
        await pass_an_hour(setup, mock_clock)


async def test_retention_forgets_requests_and_keeps_their_sums(setup, mock_clock):
    """Records are kept for 90 days (`cost_tracking.retention_days`); the daemon looks once an hour.

    What the journal still has a line of is left to the next look; its files are unlinked in a thread.
    """
    old = (await setup.chat(x_gw_project="desk", x_gw_turn="t1")).headers["x-request-id"]
    await pass_days(setup, mock_clock, 89)
    newer = (await setup.chat(x_gw_project="desk")).headers["x-request-id"]
    await pass_an_hour(setup, mock_clock)
    assert [line["id"] for line in await setup.json("/v1/logs")] == [newer, old]
    setup.running.clock.at += DAY_S + 1
    for _ in range(20):
        await pass_an_hour(setup, mock_clock)
        if len(lines := await setup.json("/v1/logs")) == 1:
            break
    assert [line["id"] for line in lines] == [newer]
    for path in (f"/v1/requests/{old}", "/api/turns/t1"):
        assert (await setup.running.get(path)).status == 404
    everything = await setup.json("/v1/costs?period=all")
    assert (everything["total"], everything["requests"]) == (0.02, 2)
    overview = await setup.json("/api/overview?project=desk")
    assert (overview["total_requests"], overview["total_cost_all"]) == (2, 0.02)


async def test_a_request_is_found_by_the_beginning_or_the_end_of_its_id(setup):
    first, second = [(await setup.chat(x_gw_project="desk")).headers["x-request-id"] for _ in range(2)]
    await setup.running.gateway.store.load(())

    async def found(part: str) -> list[str]:
        return [line["id"] for line in await setup.json(f"/v1/logs?q={part}")]

    assert await found(first[-8:]) == [first]
    assert await found(second) == [second]
    assert await found(first[:6]) == [second, first]
    assert await found("%25") == []
