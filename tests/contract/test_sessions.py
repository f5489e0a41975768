"""Conversations over HTTP in, `/v1/sessions` out: every figure is known in advance, and equals SQL over the records."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime

import pytest
import trio
import trio.testing

from tests.contract.test_numbers import CENT, ms, open_setup
from tests.contract.test_periods import sql
from tests.fakes.temporary_gateway import NOON

NAMES = [f"call-{n}" for n in range(8)]


async def take_turn(setup, session, turn, *, wait_ms, project="shop", **fields):
    """Listen (100 ms), think (`wait_ms`) and speak (50 ms), then pause for ten seconds."""
    ids = {"x_gw_session": session, "x_gw_turn": turn, "x_gw_project": project}
    setup.north.first_ms, setup.south.first_ms = 100.0, 50.0
    await setup.transcribe(**ids)
    setup.north.first_ms = wait_ms
    await setup.chat("north/big", **ids, **fields)
    await setup.speak("ten chars.", **ids)
    setup.spend(10_000)


async def hang_up(setup, **ids):
    """Leave a chat after its first words."""
    body = b'{"model": "north/big", "stream": true, "messages": [{"role": "user", "content": "hi"}]}'
    setup.north.first_ms, setup.north.first_received = 10.0, trio.Event()
    async with setup.running.open("POST", "/v1/chat/completions", body, content_type="application/json", **ids) as response:
        await response.receive_some()
    setup.north.first_received.set()
    await trio.testing.wait_all_tasks_blocked()
    setup.north.first_received = None


@pytest.fixture
async def setup(tmp_path, mock_clock):
    async with open_setup(tmp_path, mock_clock) as opened:
        yield opened


async def test_the_figures_of_a_conversation(setup, mock_clock):
    for number, wait_ms in enumerate((200.0, 300.0, 2_000.0)):
        await take_turn(setup, "call/1 #2", f"turn-{number}", wait_ms=wait_ms)
    setup.north.status = 503
    await setup.chat("default", x_gw_session="call/1 #2", x_gw_turn="turn-3", x_gw_project="shop")
    await setup.chat("north/big", x_gw_session="call/1 #2", x_gw_project="shop", x_gw_fallback="off")
    setup.north.status = 200
    await hang_up(setup, x_gw_session="call/1 #2", x_gw_turn="turn-4", x_gw_project="shop")
    await setup.chat("south/unknown", x_gw_session="other", x_gw_project="desk")

    other, call = await setup.json("/v1/sessions")
    records = (await setup.json("/v1/logs?session=call/1%20%232"))[::-1]
    assert (other["session_id"], call["session_id"], call["project"]) == ("other", "call/1 #2", "shop")
    assert (call["turns"], call["requests"], len(records)) == (5, 12, 12)
    assert (call["timestamp"], call["first_request_id"]) == (NOON, records[0]["id"])
    ends = [record["timestamp"] * 1_000 + record["total_latency_ms"] for record in records]
    assert call["length_ms"] == ms(max(ends) - NOON * 1_000)
    assert (call["first_audio_p50_ms"], call["first_audio_p95_ms"], call["first_audio_max_ms"]) == (ms(450), ms(2_150), ms(2_150))
    assert (call["interruptions"], call["fallbacks"], call["errors"]) == (1, 1, 1)
    assert call["cost_usd"] == pytest.approx(sum(record["cost_usd"] or 0 for record in records), abs=1e-12) != 0
    assert (call["unpriced_requests"], other["unpriced_requests"]) == (0, 1)
    assert (other["turns"], other["first_audio_p95_ms"], other["silence_ms"]) == (0, None, None)

    [in_sql] = sql(setup, "select count(*), count(distinct turn_id), sum(cost_nusd) / 1e9 from requests where session_id = 'call/1 #2'")
    assert in_sql == (call["requests"], call["turns"], pytest.approx(call["cost_usd"], abs=1e-12))

    whole = await setup.json("/v1/sessions/call/1%20%232")
    assert call.items() <= whole.items()
    assert [turn["turn_id"] for turn in whole["conversation"]] == [f"turn-{n}" for n in range(5)]
    for turn in whole["conversation"]:
        detail = await setup.json(f"/api/turns/{turn['turn_id']}?session=call/1%20%232")
        assert turn.items() <= detail.items()
    assert [turn["interrupted"] for turn in whole["conversation"]] == [False] * 4 + [True]
    assert [turn["turn_id"] for turn in await setup.json("/api/turns?trouble=interruption") if turn["interrupted"]] == ["turn-4"]
    [alone] = whole["others"]
    assert alone == next(record for record in records if record["turn_id"] is None)


async def test_silence_is_the_time_without_a_voice(setup, mock_clock):
    """Three seconds are heard, then the caller waits for 350 ms; the answer's audio ends as it comes, and ten seconds later
    the next recording of three seconds was sent: for seven of them nobody spoke."""
    for number in range(2):
        await take_turn(setup, "quiet", f"turn-{number}", wait_ms=200.0)
    [call] = await setup.json("/v1/sessions")
    records = await setup.json("/v1/logs?modality=tts")
    detail = [await setup.json(f"/v1/requests/{record['id']}") for record in records]
    spoken_s = [(one["measured_usage"] or one["usage"])["audio_seconds"] for one in detail]
    assert 0 < spoken_s[1] < 7
    assert call["silence_ms"] == ms(350 + (7_000 - 1_000 * spoken_s[1]) + 350)


async def test_filters_orders_pages_and_files(setup, mock_clock):
    for number, name in enumerate(NAMES):
        setup.running.clock.at = NOON + 600 * number
        setup.north.status = 503 if number == 5 else 200
        ids = {"x_gw_project": "desk"} if number % 2 else {}
        setup.north.usage = CENT
        for _ in range(1 + number * 5 % 8):
            await setup.chat("default", x_gw_session=name, **{"x_gw_project": "shop"} | ids)
    listed = [row["session_id"] for row in await setup.json("/v1/sessions")]
    assert listed == NAMES[::-1]

    async def ids_of(query):
        return [row["session_id"] for row in await setup.json(f"/v1/sessions?{query}")]

    assert await ids_of("project=desk") == NAMES[::-2]
    assert await ids_of("trouble=fallback") == await ids_of("trouble=any") == ["call-5"]
    assert await ids_of("trouble=error") == await ids_of("trouble=interruption") == []
    assert await ids_of("q=call-3") == ["call-3"]
    assert await ids_of(f"from={NOON + 600}&to={NOON + 1800}") == ["call-2", "call-1"]
    in_sql = "select session_id from requests group by 1 order by sum(cost_nusd) desc, max(timestamp) desc"
    by_cost = [name for (name,) in sql(setup, in_sql)]
    assert await ids_of("sort=-cost_usd") == by_cost != listed

    for order in ("-timestamp", "-cost_usd", "cost_usd", "-first_audio_p95_ms"):
        pages, before = [], ""
        while not pages or len(pages[-1]) == 3:
            pages.append(await setup.json(f"/v1/sessions?limit=3&sort={order}&before={before}"))
            before = pages[-1][-1]["first_request_id"]
        assert sorted(row["session_id"] for rows in pages for row in rows) == NAMES, order
        assert len(pages) == 3

    answer = await setup.running.get("/v1/sessions?format=csv&project=shop")
    rows = list(csv.DictReader(io.StringIO(answer.body.decode())))
    assert [row["session_id"] for row in rows] == NAMES[-2::-2]
    assert rows[-1]["timestamp"] == datetime.fromtimestamp(NOON, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    answer = await setup.running.get("/v1/sessions?format=json&limit=2")
    assert [row["session_id"] for row in json.loads(answer.body)] == NAMES[:-3:-1]


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/v1/sessions/none", 404, "none"),
        ("/v1/sessions?sort=colour", 422, "sort must be one of"),
        ("/v1/sessions?trouble=noise", 422, "trouble must be one of"),
        ("/v1/sessions?before=none", 422, "before must be"),
        ("/v1/sessions?sort=-cost_usd&before=none", 422, "before must be"),
        ("/v1/sessions?project=none", 404, "none"),
        ("/v1/sessions?format=csv&sort=-cost_usd", 422, "newest first"),
        ("/v1/sessions?limit=0", 422, "limit"),
    ],
)
async def test_what_is_refused(setup, mock_clock, path, status, says):
    answer = await setup.running.get(path)
    assert (answer.status, says in str(answer.json)) == (status, True), answer.body


async def test_turns_are_filtered_sorted_and_exported_alike(setup, mock_clock):
    for number, name in enumerate(NAMES):
        setup.running.clock.at = NOON + 600 * number
        await take_turn(setup, name, f"turn of {name}", wait_ms=100.0 * (number * 3 % 8), project="desk" if number % 2 else "shop")
    setup.north.status = 503
    await setup.chat("default", x_gw_session="call-9", x_gw_turn="turn of call-9", x_gw_project="shop")

    async def sessions_of(query):
        return [row["session_id"] for row in await setup.json(f"/api/turns?{query}")]

    assert await sessions_of("") == ["call-9", *NAMES[::-1]]
    assert await sessions_of("project=desk") == NAMES[::-2]
    assert await sessions_of("trouble=fallback") == ["call-9"]
    assert await sessions_of("trouble=error") == await sessions_of("trouble=interruption") == []
    assert await sessions_of(f"from={NOON + 600}&to={NOON + 1800}") == ["call-2", "call-1"]
    slowest = sorted(NAMES, key=lambda name: -(NAMES.index(name) * 3 % 8))
    assert await sessions_of("sort=-first_audio_ms") == [*slowest, "call-9"]
    in_sql = sql(setup, "select session_id from requests group by turn_id order by sum(cost_nusd), min(timestamp) desc")
    assert await sessions_of("sort=cost_usd") == [name for (name,) in in_sql]
    first = await setup.json("/api/turns?sort=-first_audio_ms&limit=5")
    rest = await setup.json(f"/api/turns?sort=-first_audio_ms&limit=5&before={first[-1]['first_request_id']}")
    assert [row["session_id"] for row in first + rest] == [*slowest, "call-9"]

    answer = await setup.running.get("/api/turns?format=csv&project=shop")
    rows = list(csv.DictReader(io.StringIO(answer.body.decode())))
    assert [row["session_id"] for row in rows] == ["call-9", *NAMES[-2::-2]]
    assert {row["timestamp"][-1] for row in rows} == {"Z"}
    answer = await setup.running.get("/api/turns?format=json")
    assert len(json.loads(answer.body)) == 9
    for query in ("sort=colour", "trouble=noise", "sort=-cost_usd&before=none", "format=csv&sort=cost_usd"):
        assert (await setup.running.get(f"/api/turns?{query}")).status == 422
