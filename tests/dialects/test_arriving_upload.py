"""Uploads that arrive slowly: the vendor gets the first byte with the gateway, and whatever comes later is right all the same."""

from __future__ import annotations

from contextlib import asynccontextmanager

import msgspec
import pytest
import trio

from gw.dialects.arriving_upload import receive_audio
from gw.dialects.exchange import HttpExchange
from gw.dialects.upload import Upload
from gw.errors import ProviderError
from gw.types.audio import PCM_16K
from gw.types.stt import TranscribeRequest
from gw.wire import multipart, wav
from tests.fakes.hosting import hosted, open_plane

PIECES, GAP_S, SECONDS = 10, 1.0, 60
AUDIO = wav.header(PCM_16K, SECONDS * 32_000) + bytes(i % 251 for i in range(SECONDS * 32_000))
BOUNDARY = b"the-boundary"
FORM = "multipart/form-data; boundary=the-boundary"
CONFIG = """
providers:
  own: {type: openai, api_key: k, base_url: "http://own.test/v1"}
  other: {type: openai, api_key: k, base_url: "http://other.test/v1"}
  dg: {type: deepgram, api_key: k, base_url: "http://dg.test"}
models: {stt: [own/whisper-1, own/gpt-4o-transcribe, other/whisper-1, dg/nova-3]}
fallbacks: {stt: [own/whisper-1, other/whisper-1]}
routing: {whole_answer_s: 5}
"""


class Slow:
    """A request body whose pieces come `GAP_S` apart."""

    def __init__(self, data, gap_s=GAP_S):
        self.size, self._data, self._gap_s = len(data), data, gap_s

    async def chunks(self):
        size = self.size // PIECES + 1
        for at in range(0, self.size, size):
            if at:
                await trio.sleep(self._gap_s)
            yield self._data[at : at + size]


class Vendor:
    """Transcribes everything as "hello". Notes of each call when it began, and what it got; `fails` refuses the first calls."""

    def __init__(self, fails=(), silent=False):
        self.calls, self.fails, self.silent = [], list(fails), silent

    async def __call__(self, scope, receive, send):
        call = {"began": None, "body": b"", "length": dict(scope["headers"]).get(b"content-length"), "left": False}
        self.calls.append(call)
        fault = self.fails.pop(0) if self.fails else None
        more = True
        while more:
            try:
                message = await receive()
            except BaseException:  # the host cancels an app whose client has left
                call["left"] = True
                raise
            if call["began"] is None:
                call["began"] = trio.current_time()
            call["body"] += message["body"]
            more = message["more_body"]
            if isinstance(fault, int):
                break
        if self.silent:
            await trio.sleep_forever()
        deepgram = {
            "metadata": {"request_id": "r", "duration": 1.0, "channels": 1},
            "results": {"channels": [{"alternatives": [{"transcript": "hello", "confidence": 1.0, "words": []}]}]},
        }
        body = msgspec.json.encode(deepgram if scope["path"] == "/v1/listen" else {"text": "hello"})
        head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": fault or 200, "headers": head})
        await send({"type": "http.response.body", "body": body})


def form(fields, after=(), closing=b"\r\n"):
    head, tail = multipart.encode_form(fields, file_name="a.wav", file_content_type="audio/wav", boundary=BOUNDARY)
    more = b"".join(
        b'\r\n--%b\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b' % (BOUNDARY, name.encode(), value.encode())
        for name, value in after
    )
    return head + AUDIO + more + tail[:-2] + closing


def file_in(body):
    decoder = multipart.MultipartDecoder(BOUNDARY if BOUNDARY in body[:60] else body[2 : body.index(b"\r\n")])
    parts = decoder.feed(body)
    decoder.end()
    return b"".join(part.data for part in parts if isinstance(part, multipart.FileData)), {
        part.name: part.value for part in parts if isinstance(part, multipart.Field)
    }


@asynccontextmanager
async def plane_with(tmp_path, **vendors):
    async with open_plane(CONFIG, tmp_path) as plane:
        for name, vendor in vendors.items():
            plane.net.hosts[f"{name}.test", 80] = hosted(vendor)
        yield plane


async def transcribe(plane, body, path="/v1/audio/transcriptions", content_type=FORM):
    """Post a body slowly; return the reply and when it was sent."""
    began = trio.current_time()
    reply = await plane.post(path, Slow(body), content_type)
    return reply, began


MODEL = [("model", "own/whisper-1")]


async def test_a_recording_in_the_body_reaches_the_vendor_while_it_arrives(tmp_path, autojump_clock):
    vendor = Vendor()
    async with plane_with(tmp_path, dg=vendor) as plane:
        reply, began = await transcribe(plane, AUDIO, "/v1/listen?model=dg/nova-3", "audio/wav")
        assert reply.json["results"]["channels"][0]["alternatives"][0]["transcript"] == "hello"
        (call,) = vendor.calls
        assert call["began"] - began < GAP_S
        assert (call["body"], int(call["length"])) == (AUDIO, len(AUDIO))
        record = plane.kept.record
        assert (record.status, len(record.attempts)) == ("success", 1)
        assert record.usage.audio_seconds == pytest.approx(SECONDS) or record.measured.audio_seconds == pytest.approx(SECONDS)
        assert record.total_latency_ms < 100  # from the end of the upload, as for one that came at once
        assert record.gateway_ms < 100
        assert reply.took_s == pytest.approx(GAP_S * (PIECES - 1), abs=0.1)


async def test_a_form_is_passed_on_while_it_arrives_from_the_callers_first_one_on(tmp_path, autojump_clock):
    vendor = Vendor()
    async with plane_with(tmp_path, own=vendor) as plane:
        body = form([*MODEL, ("language", "en")])
        waits = []
        for _ in range(3):
            reply, began = await transcribe(plane, body)
            assert reply.json == {"text": "hello"}
            waits.append(vendor.calls[-1]["began"] - began)
        assert [round(wait, 1) for wait in waits] == [0, 0, 0]
        for call in vendor.calls:
            audio, fields = file_in(call["body"])
            assert audio == AUDIO
            assert fields["language"] == "en"
            assert int(call["length"]) == len(call["body"])
        assert len({record.cost_nusd for record in plane.kept.records}) == 1
        assert [record.usage.audio_seconds for record in plane.kept.records] == [pytest.approx(SECONDS)] * 3


@pytest.mark.parametrize("arrived", [True, False])
async def test_a_recording_that_is_here_already_is_read_whole_without_a_task_of_its_own(arrived):
    """The host says with a piece that the next one is here."""
    pieces = [AUDIO[:65_536], AUDIO[65_536:]]

    async def receive():
        data = pieces.pop(0)
        return {"type": "http.request", "body": data, "more_body": bool(pieces)} | ({"gw.arrived": True} if pieces and arrived else {})

    scope = {"headers": [(b"content-length", b"%d" % len(AUDIO)), (b"content-type", b"audio/wav")], "extensions": {"gw.cancels": {}}}
    exchange = HttpExchange(
        dialect=None, gateway=None, keepalive=None, scope=scope, receive=receive, send=None, caller=None
    )  # only these two matter
    async with Upload() as upload:

        def parse():
            return TranscribeRequest(model="dg/nova-3", audio=upload, audio_seconds=upload.audio_seconds)

        async with receive_audio(exchange, upload, parse) as received:
            assert (received.request.call_when_received is None) == arrived
            assert received.request.audio_seconds == pytest.approx(SECONDS)
            assert b"".join([piece async for piece in upload.chunks()]) == AUDIO


@pytest.mark.parametrize(
    ("model", "after", "closing", "answer"),
    [
        ("whisper-1", [("response_format", "text")], b"\r\n", b"hello"),
        ("whisper-1", [("language", "de")], b"\r\n", b'{"text":"hello"}'),
        ("gpt-4o-transcribe", [("stream", "true")], b"\r\n", b"transcript.text.done"),
        ("whisper-1", [], b"", b'{"text":"hello"}'),
        ("whisper-1", [], b"\r\nand more text", b'{"text":"hello"}'),
    ],
)
async def test_what_comes_after_the_file_counts_though_the_file_was_passed_on(
    tmp_path, autojump_clock, model, after, closing, answer
):
    vendor, fields = Vendor(), [("model", f"own/{model}")]
    async with plane_with(tmp_path, own=vendor) as plane:
        await transcribe(plane, form(fields))
        del vendor.calls[:], plane.kept.records[:]
        reply, began = await transcribe(plane, form(fields, after, closing))
        assert reply.status == 200
        assert answer in reply.body
        first, second = vendor.calls
        assert (first["left"], first["began"] - began < 2 * GAP_S) == (True, True)
        audio, sent = file_in(second["body"])
        assert audio == AUDIO
        assert {name: sent[name] for name, _ in after} == dict(after)
        record = plane.kept.record
        assert (record.status, len(record.attempts)) == ("success", 2)
        assert (record.attempts[0].outcome, record.attempts[0].cost_nusd) == ("cancelled", None)
        assert record.cost_nusd == 6_000_000  # a minute of either
        assert record.total_latency_ms < 100

        reply, began = await transcribe(plane, form(fields))  # and the next one waits for its end again
        assert vendor.calls[-1]["began"] - began > GAP_S * (PIECES - 2)


async def test_a_form_is_read_whole_if_what_its_answer_needs_follows_the_file(tmp_path, autojump_clock):
    vendor = Vendor()
    async with plane_with(tmp_path, own=vendor) as plane:
        by_word = form([*MODEL, ("timestamp_granularities[]", "word")], [("response_format", "verbose_json")])
        for body in (form((), MODEL), form(MODEL), form((), MODEL), form(MODEL), by_word):
            reply, began = await transcribe(plane, body)
            assert (reply.status, reply.json["text"]) == (200, "hello")
            waited = vendor.calls[-1]["began"] - began
            assert round(waited, 1) == GAP_S * (PIECES - 1)
        assert len(vendor.calls) == 5
        assert [record.status for record in plane.kept.records] == ["success"] * 5


async def test_a_form_whose_answer_is_a_stream_is_read_whole(tmp_path, autojump_clock):
    vendor = Vendor()
    async with plane_with(tmp_path, own=vendor) as plane:
        for _ in range(2):
            reply, began = await transcribe(plane, form([("model", "own/gpt-4o-transcribe"), ("stream", "true")]))
            assert (reply.status, b"transcript.text.done" in reply.body) == (200, True)
            assert round(vendor.calls[-1]["began"] - began, 1) == GAP_S * (PIECES - 1)
            assert file_in(vendor.calls[-1]["body"])[0] == AUDIO


async def test_a_vendor_that_fails_while_it_arrives_is_followed_by_one_that_gets_all_of_it(tmp_path, autojump_clock):
    first, second = Vendor(fails=[500]), Vendor()
    async with plane_with(tmp_path, own=first, other=second) as plane:
        reply, _began = await transcribe(plane, form(MODEL))
        assert reply.json == {"text": "hello"}
        (call,) = second.calls
        assert file_in(call["body"])[0] == AUDIO
        record = plane.kept.record
        assert (record.status, [attempt.outcome for attempt in record.attempts]) == ("fallback", ["failed", "ok"])
        assert record.cost_nusd == 6_000_000


async def test_a_caller_who_leaves_in_the_middle_takes_the_vendors_call_with_it_and_pays_nothing(tmp_path, autojump_clock):
    vendor = Vendor()
    async with plane_with(tmp_path, dg=vendor) as plane:
        with trio.move_on_after(3.5 * GAP_S):
            await transcribe(plane, AUDIO, "/v1/listen?model=dg/nova-3", "audio/wav")
        await trio.sleep(0.1)
        (call,) = vendor.calls
        assert call["left"]
        record = plane.kept.record
        assert (record.status, record.cost_nusd, record.usage.audio_seconds) == ("cancelled", 0, 0.0)


async def test_the_vendor_has_its_time_from_the_end_of_the_upload_on(tmp_path, autojump_clock):
    vendor, other = Vendor(silent=True), Vendor()
    async with plane_with(tmp_path, own=vendor, other=other) as plane:
        reply, began = await transcribe(plane, form(MODEL))
        assert reply.json == {"text": "hello"}
        assert reply.took_s == pytest.approx(GAP_S * (PIECES - 1) + 5, abs=0.2)
        assert vendor.calls[0]["began"] - began < 2 * GAP_S
        record = plane.kept.record
        assert record.attempts[0].error_code == "upstream_too_slow"
        assert record.total_latency_ms == pytest.approx(5_000, abs=100)


async def test_a_slow_caller_opens_no_breaker(tmp_path, autojump_clock):
    calls = []

    async def cut(stream):
        calls.append(await stream.receive_some(65_536))

    vendor = Vendor()
    async with plane_with(tmp_path, dg=vendor) as plane:
        plane.net.hosts["dg.test", 80] = cut
        for _ in range(8):
            reply, _began = await transcribe(plane, AUDIO, "/v1/listen?model=dg/nova-3", "audio/wav")
            assert reply.status in (502, 503)
        assert len(calls) == 8
        plane.net.hosts["dg.test", 80] = hosted(vendor)
        reply, _began = await transcribe(plane, AUDIO, "/v1/listen?model=dg/nova-3", "audio/wav")
        assert reply.status == 200


async def test_a_form_that_names_a_second_model_is_refused(tmp_path, autojump_clock):
    vendor = Vendor()
    async with plane_with(tmp_path, own=vendor) as plane:
        await transcribe(plane, form(MODEL))
        reply, _began = await transcribe(plane, form(MODEL, [("model", "other/whisper-1")]))
        assert (reply.status, reply.error["param"]) == (400, "model")


async def test_a_form_that_breaks_off_is_no_transcript(tmp_path, autojump_clock):
    vendor = Vendor()
    async with plane_with(tmp_path, own=vendor) as plane:
        await transcribe(plane, form(MODEL))
        body = form(MODEL)
        reply, _began = await transcribe(plane, body[:-30] + b"x" * 30)
        assert (reply.status, reply.error["code"]) == (400, "invalid_request")
        assert vendor.calls[-1]["left"]
        assert plane.kept.records[-1].cost_nusd == 0


async def test_a_client_that_stops_sending_is_cut_off_with_the_vendors_call(tmp_path, autojump_clock):
    vendor = Vendor()
    async with plane_with(tmp_path, dg=vendor) as plane:
        try:
            reply = await plane.post("/v1/listen?model=dg/nova-3", Slow(AUDIO, 3_000.0), "audio/wav")
            assert reply.status == 408
        except ProviderError:
            pass
        assert vendor.calls[0]["left"]
        assert plane.kept.record.cost_nusd == 0
