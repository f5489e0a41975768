"""What every endpoint keeps over a vendor that speaks its own wire dialect, and over one that does not.

The whole path in memory: dialect, relay, provider, fake vendor. A dialect is in the suite by its `endpoints.ENDPOINTS`.
"""

from __future__ import annotations

import attrs
import msgspec
import pytest
import trio

from gw.dialects.http_handler import ANSWER_HEADERS
from gw.providers.spec import spec_of
from gw.types.provider_types import PROVIDER_TYPES
from gw.types.usage import Usage
from tests.contract.endpoints import (
    CHAT_STREAM,
    CHAT_WHOLE,
    ENDPOINTS,
    RESPONSES_STREAM,
    RESPONSES_WHOLE,
    SPEECH,
    TRANSCRIPTION,
    TRANSCRIPTION_STREAM,
)
from tests.fakes.golden import golden
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.net import ServerSide
from tests.fakes.vendors.anthropic import FakeAnthropic
from tests.fakes.vendors.ollama import FakeOllama
from tests.fakes.vendors.openai import FakeOpenAI
from tests.fakes.vendors.scripted import ScriptedVendor

CONFIG = """
providers:
  own: {type: openai, api_key: a-key-of-no-value, base_url: "http://own.test/v1"}
  other: {type: sim}
  keyless: {type: groq}
models:
  llm: {own/m: {price: {unit: 1M_tokens, input: 1, output: 2}}, other/echo: {}, keyless/m: {}}
  stt: {own/m: {price: {unit: minute, usd: 0.006}}, other/tone: {}, keyless/m: {}}
  tts: {own/m: {price: {unit: 1M_characters, usd: 15}}, other/tone: {}, keyless/m: {}}
routing: {first_event_s: {llm: 8, stt: 8, tts: 8}, whole_answer_s: 8, idle_s: 15, keepalive_s: 3}
"""
CHAIN = """
fallbacks:
  llm: [own/m, other/echo]
  stt: [own/m, other/tone]
  tts: [own/m, other/tone]
"""
SMALL = """
projects:
  small: {daily_budget: 0.001, budget_action: block}
rate_limiting: {own: {requests_per_minute: 1}, other: {requests_per_minute: 1}}
serve: {max_body_mb: 0.002}
"""
OTHERS = {"llm": "other/echo", "stt": "other/tone", "tts": "other/tone"}
STREAMS = [e for e in ENDPOINTS if e.streams]
EVENT_STREAMS = [e for e in STREAMS if e.content_type == "text/event-stream"]


def names(value):
    return value.name if hasattr(value, "name") else str(value)


every = pytest.mark.parametrize("endpoint", ENDPOINTS, ids=names)
each_stream = pytest.mark.parametrize("endpoint", STREAMS, ids=names)
each_event_stream = pytest.mark.parametrize("endpoint", EVENT_STREAMS, ids=names)
from_anyone = pytest.mark.parametrize("vendor", ["own", "other"])


SAID = {"reply": "one two three four five six", "models": ("m",)}
FAKES = {
    "openai": (lambda: FakeOpenAI(**SAID, speech_pcm=bytes(range(240)) * 400), "http://own.test/v1"),
    "anthropic": (lambda: FakeAnthropic(**SAID), "http://own.test"),
    "ollama": (lambda: FakeOllama(**SAID), "http://own.test"),
}
"""Dialect → the vendor that speaks it, and its base_url."""


@attrs.define
class Upstreams:
    """`own` speaks the endpoint's dialect; `other`, the engine inside, does not."""

    fake: ScriptedVendor
    config: str
    dialect: str

    @classmethod
    def of(cls, dialect):
        fake, base_url = FAKES[dialect]
        config = CONFIG.replace("type: openai,", f"type: {dialect},").replace("http://own.test/v1", base_url)
        return cls(fake(), config if dialect == "openai" else _chat_only(config), dialect)

    @property
    def chain(self):
        return CHAIN if self.dialect == "openai" else _chat_only(CHAIN)

    def into(self, plane):
        plane.net.hosts["own.test", 80] = hosted(self.fake)

    @staticmethod
    def model(vendor, endpoint):
        return "own/m" if vendor == "own" else OTHERS[endpoint.modality]


@pytest.fixture
def upstreams(request):
    params = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    return Upstreams.of(params["endpoint"].dialect if "endpoint" in params else "openai")


def _chat_only(config):
    return "".join(line for line in config.splitlines(True) if not line.startswith(("  stt:", "  tts:")))


def slow(fake, gap_s, *, first_s=0.0):
    fake.first_token_after_s, fake.token_gap_s = first_s, gap_s
    if isinstance(fake, FakeOpenAI):
        fake.speech_gap_s = gap_s


def test_every_dialect_spoken_to_apps_is_in_the_suite():
    assert {e.dialect for e in ENDPOINTS} <= {spec_of(t).dialect for t in PROVIDER_TYPES}
    assert {e.dialect for e in ENDPOINTS} == set(FAKES)
    assert all(e.dialect != spec_of("sim").dialect for e in ENDPOINTS)


@every
@from_anyone
async def test_an_answer_its_headers_and_its_record(endpoint, vendor, upstreams, tmp_path, autojump_clock):
    async with open_plane(upstreams.config, tmp_path) as plane:
        upstreams.into(plane)
        model = upstreams.model(vendor, endpoint)
        ids = {"X_GW_Session": "s1", "X_GW_Turn": "t1"}
        reply = await endpoint.ask(plane, model, {k.lower(): v for k, v in ids.items()})
        assert (reply.status, reply.cut) == (200, False)
        assert reply.headers["content-type"].partition(";")[0] == endpoint.content_type
        assert endpoint.content(reply)
        assert reply.body.endswith(endpoint.ends_with)
        record = plane.kept.record
        assert (reply.headers["x-gw-model"], reply.headers["x-gw-attempts"]) == (model, "1")
        assert reply.headers["x-request-id"] == record.id
        assert reply.headers["server-timing"].startswith("gw;dur=")
        assert {name for name in reply.headers if name.startswith("x-gw-")} <= {name.lower() for name in ANSWER_HEADERS}
        assert "upstream;dur=" in reply.headers["server-timing"]
        assert (record.status, record.model_id, record.endpoint) == ("success", model, endpoint.path)
        assert (record.session_id, record.turn_id) == ("s1", "t1")
        assert record.cost_nusd > 0
        assert plane.gateway.ledger.spent("default") == record.cost_nusd
        if "x-gw-cost-usd" in reply.headers:
            assert float(reply.headers["x-gw-cost-usd"]) == pytest.approx(record.cost_nusd / 1e9)


@pytest.mark.parametrize("endpoint", [e for e in ENDPOINTS if e.modality == "llm"], ids=names)
@from_anyone
async def test_chat_says_the_same_whoever_answers(endpoint, vendor, upstreams, tmp_path, autojump_clock):
    async with open_plane(upstreams.config, tmp_path) as plane:
        upstreams.into(plane)
        reply = await endpoint.ask(plane, upstreams.model(vendor, endpoint))
        assert endpoint.content(reply) == "one two three four five six"


@every
@from_anyone
async def test_a_fallback_answers_as_if_it_had_been_asked(endpoint, vendor, upstreams, tmp_path, autojump_clock):
    """`own` fails, or `keyless` is passed over."""
    async with open_plane(upstreams.config + upstreams.chain, tmp_path) as plane:
        upstreams.into(plane)
        upstreams.fake.status = 503 if vendor == "other" else 200
        reply = await endpoint.ask(plane, "own/m" if vendor == "other" else "keyless/m")
        assert reply.status == 200
        assert endpoint.content(reply)
        record = plane.kept.record
        assert record.status == "fallback"
        assert reply.headers["x-gw-model"] == record.model_id == upstreams.model(vendor, endpoint)
        assert reply.headers["x-gw-attempts"] == "2"
        assert [a.outcome for a in record.attempts] == [
            "failed" if vendor == "other" else "not_configured",
            "ok",
        ]


# ---- what passes through


def raw_host(content_type: bytes, body: bytes, seen: list):
    async def host(stream):
        server = ServerSide(stream)
        while (request := await server.request()) is not None:
            seen.append(request)
            await server.respond(200, body, (b"content-type", content_type))

    return host


UNKNOWN = {"x_unknown": {"a": [1, None, "é"]}, "seed": 7}
COMPLETION = (
    b'{"id":"c","x_new":{"z":1},"choices":[{"index":0,"x":[ 1,2 ],"message":{"role":"assistant","content":"hi"},'
    b'"finish_reason":"stop"}],\n "usage":{"prompt_tokens":1,"completion_tokens":1,"x":2}}'
)
CHUNKS = (
    b'{"id":"c","x_new":1,"choices":[{"index":0,"delta":{"content":"hi","x_thought":"\xc3\xa9"},"finish_reason":null}]}',
    b'{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_last":true}',
)
RESPONSE = golden("openai/response")[:-1] + b',"x_new": {"z":[ 1, null]}}'
TRANSCRIPT = b'{"text":"hi","x_new":[1, 2],"usage":{"type":"duration","seconds":2}}'
AUDIO = bytes(range(256)) * 600  # long enough for the text
DELTA, DONE = (
    b'{"type":"transcript.text.delta","delta":"hi","x":1}',
    b'{"type":"transcript.text.done","text":"hi","x":2}',
)


def sse(*events):
    return b"".join(b"data: " + event + b"\n\n" for event in events)


@pytest.mark.parametrize(
    ("endpoint", "content_type", "body", "expected"),
    [
        (CHAT_WHOLE, b"application/json", COMPLETION, COMPLETION),
        (CHAT_STREAM, b"text/event-stream", sse(*CHUNKS, b"[DONE]"), sse(*CHUNKS, b"[DONE]")),
        (RESPONSES_WHOLE, b"application/json", RESPONSE, RESPONSE),
        (RESPONSES_STREAM, b"text/event-stream", golden("openai/responses_stream"), golden("openai/responses_stream")),
        (SPEECH, b"audio/pcm", AUDIO, AUDIO),
        (TRANSCRIPTION, b"application/json", TRANSCRIPT, TRANSCRIPT),
        (TRANSCRIPTION_STREAM, b"text/event-stream", sse(DELTA, DONE), sse(DELTA, DONE)),
    ],
    ids=names,
)
async def test_what_we_do_not_know_passes_unchanged(endpoint, content_type, body, expected, tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        seen = []
        plane.net.hosts["own.test", 80] = raw_host(content_type, body, seen)
        unknown = {"x_unknown": "é", "include[]": "logprobs"} if endpoint.modality == "stt" else UNKNOWN
        reply = await endpoint.ask(plane, "own/m", **unknown)
        assert reply.body == expected
        (request,) = seen
        if endpoint.modality == "stt":
            for name, value in unknown.items():
                assert f'name="{name}"\r\n\r\n{value}\r\n'.encode() in request.body
        else:
            sent = msgspec.json.decode(request.body)
            assert {name: sent[name] for name in UNKNOWN} == UNKNOWN
            assert sent["model"] == "m"


@from_anyone
@pytest.mark.parametrize("included", [True, False])
async def test_the_usage_chunk_comes_when_asked_for(vendor, included, upstreams, tmp_path, autojump_clock):
    async with open_plane(upstreams.config, tmp_path) as plane:
        upstreams.into(plane)
        options = {"stream_options": {"include_usage": True, "x": 1}} if included else {}
        reply = await CHAT_STREAM.ask(plane, upstreams.model(vendor, CHAT_STREAM), **options)
        chunks = [msgspec.json.decode(event) for event in reply.events[:-1]]
        with_usage = [c for c in chunks if c.get("usage")]
        assert len(with_usage) == included
        if included:
            assert chunks[-1] == with_usage[0]
            assert chunks[-1]["choices"] == []
            assert chunks[-1]["usage"]["completion_tokens"] == plane.kept.record.usage.output_tokens
        assert plane.kept.record.usage.source == "vendor"
        for entry in upstreams.fake.ledger:
            assert entry.fields["stream_options"] == {"include_usage": True} | ({"x": 1} if included else {})


async def test_tools_are_called_whoever_answers(upstreams, tmp_path, autojump_clock):
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
    upstreams.fake.tool_call = ("look", "{}")
    async with open_plane(upstreams.config.replace("other/echo", "other/scripted"), tmp_path) as plane:
        upstreams.into(plane)
        for model in ("own/m", "other/scripted"):
            whole = await CHAT_WHOLE.ask(plane, model, tools=tools)
            choice = whole.json["choices"][0]
            assert choice["finish_reason"] == "tool_calls"
            assert choice["message"]["tool_calls"][0]["function"] == {"name": "look", "arguments": "{}"}
            stream = await CHAT_STREAM.ask(plane, model, tools=tools)
            deltas = [msgspec.json.decode(e)["choices"][0]["delta"] for e in stream.events[:-1]]
            pieces = [piece for delta in deltas for piece in delta.get("tool_calls", ())]
            assert pieces[0]["index"] == 0
            assert "".join(p["function"].get("arguments", "") for p in pieces) == "{}"


# ---- pace


@each_stream
@from_anyone
async def test_the_first_piece_is_passed_on_before_the_last_is_made(
    endpoint, vendor, upstreams, tmp_path, autojump_clock
):
    config = upstreams.config.replace("{type: sim}", "{type: sim, latency_ms: 2000, token_ms: 2000}")
    fake = upstreams.fake
    slow(fake, 2, first_s=2)
    async with open_plane(config, tmp_path) as plane:
        upstreams.into(plane)
        reply = await endpoint.ask(plane, upstreams.model(vendor, endpoint))
        assert not reply.cut
        first, last = reply.pieces[0][0], reply.pieces[-1][0]
        assert first == pytest.approx(2, abs=0.01)
        assert last >= first + 2
        assert last > 8 or endpoint.modality == "stt", "longer than the deadline of the first event, which is lifted"
        assert plane.kept.record.status == "success"
        assert plane.kept.record.ttfb_ms == pytest.approx(2000, abs=10)


@each_event_stream
@from_anyone
async def test_a_waiting_stream_shows_signs_of_life(endpoint, vendor, upstreams, tmp_path, autojump_clock):
    config = upstreams.config.replace("{type: sim}", "{type: sim, latency_ms: 7000}")
    upstreams.fake.first_token_after_s = 7
    async with open_plane(config, tmp_path) as plane:
        upstreams.into(plane)
        reply = await endpoint.ask(plane, upstreams.model(vendor, endpoint))
        assert endpoint.content(reply)
        before = [data for at, data in reply.pieces if at < 7]
        assert len(before) == 2
        assert all(data.startswith(b": ") and data.endswith(b"\n\n") for data in before)
        assert reply.headers["x-request-id"] == plane.kept.record.id


@each_event_stream
async def test_a_failure_after_a_sign_of_life_is_told_in_the_stream(endpoint, upstreams, tmp_path, autojump_clock):
    upstreams.fake.answer_after_s = 60
    async with open_plane(upstreams.config, tmp_path) as plane:
        upstreams.into(plane)
        reply = await endpoint.ask(plane, "own/m")
        assert (reply.status, reply.cut, reply.took_s) == (200, False, pytest.approx(8, abs=0.1))
        error = endpoint.in_band(reply)["gw"]
        assert (error["outcome"], error["request_id"]) == ("too_slow", reply.headers["x-request-id"])
        assert plane.kept.record.status == "error"


@each_event_stream
async def test_a_failure_at_the_moment_of_a_sign_of_life(endpoint, upstreams, tmp_path, autojump_clock):
    config = upstreams.config.replace("keepalive_s: 3", "keepalive_s: 2")
    upstreams.fake.answer_after_s, upstreams.fake.status = 2.0, 500
    async with open_plane(config, tmp_path) as plane:
        upstreams.into(plane)
        for _ in range(4):  # the order of two tasks that wake together is chance
            reply = await endpoint.ask(plane, "own/m", {"x_gw_fallback": "off"})
            assert not reply.cut
            error = (endpoint.in_band(reply) if reply.status == 200 else endpoint.error(reply))["gw"]
            assert error["outcome"] == "failed"


# ---- failures


@every
async def test_the_error_body(endpoint, upstreams, tmp_path, autojump_clock):
    upstreams.fake.status = 401
    async with open_plane(upstreams.config, tmp_path) as plane:
        upstreams.into(plane)
        reply = await endpoint.ask(plane, "own/m")
        assert (reply.status, reply.headers["content-type"]) == (502, "application/json")
        error = endpoint.gw(reply)
        assert error["code"] == "upstream_rejected"
        assert error["request_id"] == reply.headers["x-request-id"] == plane.kept.record.id
        assert (error["upstream_status"], error["provider"]) == (401, "own")


@each_stream
@from_anyone
async def test_an_upstream_that_breaks_off_after_content(endpoint, vendor, upstreams, tmp_path, autojump_clock):
    """The next candidate is not called, except for speech, whose text is known: the caller already has half an answer."""
    config = (upstreams.config + upstreams.chain).replace("{type: sim}", "{type: sim, cut_after: 1}")
    fake = upstreams.fake
    fake.cut_after = 1
    slow(fake, 0.1)
    async with open_plane(config, tmp_path) as plane:
        upstreams.into(plane)
        reply = await endpoint.ask(plane, upstreams.model(vendor, endpoint))
        assert reply.status == 200
        if endpoint.in_band is None:
            assert reply.cut
            assert reply.body
        else:
            error = endpoint.in_band(reply)["gw"]
            assert error["outcome"] == "cut"
            assert error["request_id"] == reply.headers["x-request-id"]
        record = plane.kept.record
        calls = 4 if endpoint.modality == "tts" else 1  # each of two candidates, and each once more
        assert (record.status, [a.outcome for a in record.attempts]) == ("error", ["cut"] * calls)
        assert record.cost_nusd > 0


@every
async def test_all_candidates_failed(endpoint, upstreams, tmp_path, autojump_clock):
    for knobs, status, code in [
        ("fail_rate: 1, fail_with: 500", 502, "upstream_failed"),
        ("fail_rate: 1, fail_with: slow", 504, "upstream_failed"),
        ("fail_rate: 1, fail_with: 429, retry_after_s: 7", 429, "rate_limited"),
    ]:
        config = (upstreams.config + upstreams.chain).replace("{type: sim}", f"{{type: sim, {knobs}}}").replace("_s: 3}", "_s: 600}")
        upstreams.fake.status = 429 if status == 429 else 500 if status == 502 else 200
        upstreams.fake.answer_after_s = 100 if status == 504 else 0
        upstreams.fake.headers = [("retry-after", "20")] if status == 429 else []
        async with open_plane(config, tmp_path) as plane:
            upstreams.into(plane)
            reply = await endpoint.ask(plane, "own/m")
            assert (reply.status, endpoint.gw(reply)["code"]) == (status, code)
            assert [a["model"] for a in endpoint.gw(reply)["attempts"]] == ["own/m", OTHERS[endpoint.modality]]
            assert reply.headers.get("retry-after") == ("7" if status == 429 else None)
            assert plane.kept.record.status == "error"
            assert len(plane.kept.record.attempts) == 2


@every
async def test_what_is_refused_before_anybody_is_called(endpoint, upstreams, tmp_path, autojump_clock):
    async with open_plane(upstreams.config, tmp_path) as plane:
        upstreams.into(plane)
        unknown = await endpoint.ask(plane, "own/nothing")
        assert (unknown.status, endpoint.gw(unknown)["code"]) == (404, "model_not_found")
        assert "own/m" in endpoint.gw(unknown)["available"]
        stranger = await endpoint.ask(plane, "own/m", {"x_gw_project": "nobody"})
        assert (stranger.status, endpoint.gw(stranger)["code"]) == (404, "project_not_found")
        _, content_type = endpoint.body("own/m")
        for rubbish in (b"{", b"[]", b"\xff", b""):
            bad = await plane.post(endpoint.path, rubbish, content_type)
            assert (bad.status, endpoint.gw(bad)["code"]) == (400, "invalid_request")
            assert bad.headers["x-request-id"] == endpoint.gw(bad)["request_id"]
        assert plane.kept.intents == []
        assert upstreams.fake.ledger == []
        again = await endpoint.ask(plane, "own/m")
        assert again.status == 200


@every
async def test_limits(endpoint, upstreams, tmp_path, autojump_clock):
    limited = SMALL.split("serve:")[0]
    async with open_plane(upstreams.config + upstreams.chain + limited, tmp_path, spent={"small": 2_000_000}) as plane:
        upstreams.into(plane)
        spent = await endpoint.ask(plane, "own/m", {"x_gw_project": "small"})
        assert (spent.status, endpoint.gw(spent)["code"]) == (402, "budget_exceeded")
        assert (endpoint.gw(spent)["project"], endpoint.gw(spent)["daily_budget"]) == ("small", 0.001)
        assert spent.headers["x-should-retry"] == "false"
        assert (plane.kept.record.status, plane.kept.record.cost_nusd, plane.kept.intents) == ("error", 0, [])
        first = await endpoint.ask(plane, "own/m")
        assert first.headers["x-ratelimit-limit-requests"] == "1"
        assert first.headers["x-ratelimit-remaining-requests"] == "0"
        alone = await endpoint.ask(plane, "own/m", {"x_gw_fallback": "off"})
        assert (alone.status, endpoint.gw(alone)["code"], endpoint.gw(alone)["limit_source"]) == (429, "rate_limited", "configured")
        assert int(alone.headers["retry-after"]) == 60
        second = await endpoint.ask(plane, "own/m")
        assert second.headers["x-gw-model"] == OTHERS[endpoint.modality]
        third = await endpoint.ask(plane, "own/m")
        assert (third.status, endpoint.gw(third)["code"]) == (429, "rate_limited")
        assert len(endpoint.gw(third)["attempts"]) == 2
        assert int(third.headers["retry-after"]) == 60
        assert len(plane.kept.intents) == 2


@every
async def test_a_body_that_is_too_large(endpoint, upstreams, tmp_path, autojump_clock):
    async with open_plane(upstreams.config + SMALL, tmp_path) as plane:
        upstreams.into(plane)
        reply = await endpoint.ask(plane, "own/m", padding="x" * 300_000)
        assert (reply.status, endpoint.gw(reply)["code"]) == (413, "too_large")
        assert plane.kept.records == []
        assert upstreams.fake.ledger == []


# ---- clients that leave


@each_stream
@from_anyone
async def test_a_client_that_leaves_stops_the_upstream(endpoint, vendor, upstreams, tmp_path, autojump_clock):
    config = upstreams.config.replace("{type: sim}", "{type: sim, token_ms: 1000}")
    fake = upstreams.fake
    if isinstance(fake, FakeOpenAI):
        fake.transcript = "one two three"
    slow(fake, 1)
    async with open_plane(config, tmp_path) as plane:
        upstreams.into(plane)
        body, content_type = endpoint.body(upstreams.model(vendor, endpoint))
        async with plane.open(endpoint.path, body, content_type) as response:
            await response.receive_some()
        left_at = trio.current_time()
        await plane.kept.finished.wait()
        assert trio.current_time() - left_at < 0.1
        record = plane.kept.record
        assert (record.status, [a.outcome for a in record.attempts]) == ("cancelled", ["ok"])
        assert record.cost_nusd > 0
        for entry in fake.ledger:
            await entry.aborted.wait()
            assert (entry.outcome, entry.closed - left_at) == ("cancelled", pytest.approx(0, abs=0.1))


@every
async def test_a_client_that_leaves_before_any_content(endpoint, upstreams, tmp_path, autojump_clock):
    upstreams.fake.answer_after_s = 5
    async with open_plane(upstreams.config.replace("_s: 3}", "_s: 600}"), tmp_path) as plane:
        upstreams.into(plane)
        with trio.move_on_after(1):
            await endpoint.ask(plane, "own/m")
        (entry,) = upstreams.fake.ledger
        await entry.aborted.wait()
        assert (entry.outcome, entry.closed) == ("cancelled", pytest.approx(1, abs=0.1))
        record = plane.kept.record
        assert (record.status, record.usage.source, record.usage.output_tokens) == ("cancelled", "estimated", 0)
        assert record.cost_nusd > 0  # what was sent is billed: the vendor has it


@every
async def test_one_connection_carries_many_requests(endpoint, upstreams, tmp_path, autojump_clock):
    async with open_plane(upstreams.config, tmp_path) as plane:
        upstreams.into(plane)
        upstreams.fake.usage = Usage(input_tokens=3, output_tokens=4, source="vendor")
        for _ in range(5):
            assert (await endpoint.ask(plane, "own/m")).status == 200
        assert (plane.client.opened, plane.gateway.pool.opened) == (1, 1)
        assert len({record.id for record in plane.kept.records}) == 5
