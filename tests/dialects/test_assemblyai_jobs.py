"""Transcripts that are polled for: what is made of them, who may hold how much, webhooks, and a stop in the middle."""

from __future__ import annotations

from contextlib import asynccontextmanager

import msgspec
import pytest
import trio

from gw.dialects import assemblyai_jobs
from gw.net.http1 import Origin, Pool
from gw.serve import serve
from gw.web.drain import Drain
from tests.contract.endpoints import recording
from tests.dialects.test_remote_recording import TEXT, World
from tests.fakes.hosting import GATEWAY, Reply, hosted, open_plane
from tests.fakes.temporary_gateway import open_test_gateway
from tests.fakes.vendors.assemblyai import FakeAssemblyAI
from tests.fakes.vendors.deepgram import FakeDeepgram

CONFIG = """
providers:
  deepgram: {api_key: k, base_url: "http://deepgram.test"}
  assemblyai: {api_key: k, base_url: "http://assemblyai.test"}
models: {stt: [deepgram/nova-3, assemblyai/universal-2]}
auth:
  admin_token: admin-token-8351026789
  keys:
    - {key: gwk_one_8351026789, project: one}
    - {key: gwk_two_8351026789, project: two}
projects: {one: {}, two: {}}
"""
MODELS = ("deepgram/nova-3", "assemblyai/universal-2")


class Api:
    """One caller of the API."""

    def __init__(self, plane, key="gwk_one_8351026789"):
        self.plane = plane
        self.headers = [(b"authorization", key.encode())]

    async def ask(self, method, path, body=b""):
        async with self.plane.client.open("client", method, GATEWAY, path.encode(), self.headers, body) as response:
            pieces, headers = [(0.0, await response.read())], {n.decode(): v.decode() for n, v in response.headers}
            return Reply(status=response.status, headers=headers, pieces=pieces, cut=False, took_s=0)

    async def upload(self):
        return await self.ask(b"POST", "/v2/upload", recording())

    async def start(self, model, **members):
        url = members.pop("audio_url", None) or (await self.upload()).json["upload_url"]
        body = msgspec.json.encode({"audio_url": url, "speech_models": [model], **members})
        return await self.ask(b"POST", "/v2/transcript", body)

    async def done(self, id_):
        while (job := (await self.ask(b"GET", f"/v2/transcript/{id_}")).json)["status"] == "processing":  # noqa: ASYNC110
            await trio.sleep(1)
        return job

    async def transcript(self, model, **members):
        started = await self.start(model, **members)
        assert started.status == 200, started.body
        return await self.done(started.json["id"])


@asynccontextmanager
async def opened(tmp_path, **fake):
    async with open_plane(CONFIG, tmp_path) as plane:
        fakes = {
            "deepgram": FakeDeepgram(api_key="k", transcript=TEXT, **fake),
            "assemblyai": FakeAssemblyAI(api_key="k", transcript=TEXT, **fake),
        }
        for name, vendor in fakes.items():
            plane.net.hosts[f"{name}.test", 80] = hosted(vendor)
        world = World(plane, fakes)
        plane.net.hosts["files.test", 80] = world.serve_files
        yield world, Api(plane)


SRT = "1\n00:00:00,000 --> 00:00:00,400\nHello there.\n\n"
EXPORTS = {
    "srt": SRT, "srt?chars_per_caption=5": "1\n00:00:00,000 --> 00:00:00,200\nHello\n\n2\n00:00:00,200 --> 00:00:00,400\nthere.\n\n",
    "vtt": "WEBVTT\n\n00:00.000 --> 00:00.400\nHello there.\n\n",
}  # fmt: skip


async def test_everything_that_is_made_of_a_transcript_of_any_vendor(tmp_path, autojump_clock):
    async with opened(tmp_path) as (_, api):
        for model in MODELS:
            job = await api.transcript(model)
            path = f"/v2/transcript/{job['id']}"
            for what, expected in EXPORTS.items():
                reply = await api.ask(b"GET", f"{path}/{what}")
                assert (reply.status, reply.body.decode()) == (200, expected), (model, what)
            for what in ("sentences", "paragraphs"):
                reply = (await api.ask(b"GET", f"{path}/{what}")).json
                (piece,) = reply[what]
                assert (piece["text"], piece["start"], piece["end"], len(piece["words"])) == (TEXT, 0, 400, 2), model
                assert (reply["id"], reply["audio_duration"]) == (job["id"], job["audio_duration"])
            found = (await api.ask(b"GET", f"{path}/word-search?words=THERE,hello%20there,nobody")).json
            assert found["total_count"] == 2
            assert found["matches"] == [
                {"text": "THERE", "count": 1, "timestamps": [[200, 400]], "indexes": [1]},
                {"text": "hello there", "count": 1, "timestamps": [[0, 400]], "indexes": [0]},
            ]
            assert (await api.ask(b"GET", f"{path}/word-search?words=")).status == 400
            assert (await api.ask(b"GET", f"{path}/srt?chars_per_caption=x")).status == 400


async def test_a_list_by_pages_and_what_is_deleted(tmp_path, autojump_clock):
    async with opened(tmp_path) as (world, api):
        ids = []
        for model in (*MODELS, *MODELS, "deepgram/nova-3"):
            ids.insert(0, (await api.transcript(model))["id"])
            await trio.sleep(1)
        whole = (await api.ask(b"GET", "/v2/transcript")).json
        assert [one["id"] for one in whole["transcripts"]] == ids
        assert whole["page_details"]["result_count"] == 5
        assert whole["transcripts"][0]["resource_url"] == f"http://gateway.test/v2/transcript/{ids[0]}"
        first = (await api.ask(b"GET", "/v2/transcript?limit=2")).json
        seen = [one["id"] for one in first["transcripts"]]
        while (older := first["page_details"]["prev_url"]) is not None:
            first = (await api.ask(b"GET", older.removeprefix("http://gateway.test"))).json
            seen += [one["id"] for one in first["transcripts"]]
        assert seen == ids
        assert (await Api(world.plane, "gwk_two_8351026789").ask(b"GET", "/v2/transcript")).json["transcripts"] == []
        assert (await api.ask(b"GET", "/v2/transcript?status=error")).json["transcripts"] == []

        gone = await api.ask(b"DELETE", f"/v2/transcript/{ids[0]}")
        assert (gone.status, gone.json["text"], gone.json["audio_url"]) == (200, "Deleted by user.", "http://deleted_by_user")
        assert (await api.done(ids[0]))["words"] is None
        assert TEXT.encode() not in world.plane.kept.stored[ids[0]].body
        for method, suffix in ((b"GET", ""), (b"DELETE", ""), (b"GET", "/srt")):
            foreign = await Api(world.plane, "gwk_two_8351026789").ask(method, f"/v2/transcript/{ids[1]}{suffix}")
            assert foreign.status == 404


async def test_one_project_cannot_take_the_uploads_of_another(tmp_path, autojump_clock, monkeypatch):
    monkeypatch.setattr(assemblyai_jobs, "LIFETIME_S", 600.0)
    async with opened(tmp_path) as (world, api):
        for _ in range(assemblyai_jobs.MAX_UPLOADS_EACH):
            assert (await api.upload()).status == 200
        refused = await api.upload()
        assert (refused.status, refused.headers["retry-after"]) == (503, "30")
        assert "this project has 64 uploads already" in refused.json["error"]
        assert (await Api(world.plane, "gwk_two_8351026789").transcript(MODELS[0]))["text"] == TEXT
        await trio.sleep(assemblyai_jobs.LIFETIME_S - 1)
        assert (await api.upload()).status == 503
        await trio.sleep(2)
        assert (await api.upload()).status == 200


async def test_uploads_are_bounded_by_their_bytes_too(tmp_path, autojump_clock, monkeypatch):
    monkeypatch.setattr(assemblyai_jobs, "BODIES_EACH", 0.0009)  # 45 kB
    async with opened(tmp_path) as (world, api):
        assert [(await api.upload()).status for _ in range(3)] == [200, 200, 503]
        assert (await Api(world.plane, "gwk_two_8351026789").upload()).status == 200


async def test_one_project_cannot_take_the_transcripts_of_another(tmp_path, autojump_clock, monkeypatch):
    monkeypatch.setattr(assemblyai_jobs, "LIFETIME_S", 600.0)
    monkeypatch.setattr(assemblyai_jobs, "MAX_JOBS_EACH", 4)
    monkeypatch.setattr(assemblyai_jobs, "MAX_JOBS", 5)
    monkeypatch.setattr(assemblyai_jobs, "JOBS_ALWAYS", 2)
    async with opened(tmp_path) as (world, api):
        other = Api(world.plane, "gwk_two_8351026789")
        url = (await api.upload()).json["upload_url"]
        assert [(await api.start(MODELS[0], audio_url=url)).status for _ in range(5)] == [200] * 4 + [503]
        refused = await api.start(MODELS[0], audio_url=url)
        assert "this project holds 4 transcripts; each is kept for an hour" in refused.json["error"]
        assert 590 <= int(refused.headers["retry-after"]) <= 600
        url = (await other.upload()).json["upload_url"]
        assert [(await other.start(MODELS[0], audio_url=url)).status for _ in range(3)] == [200, 200, 503]
        assert "this project holds 2 transcripts of 6" in (await other.start(MODELS[0], audio_url=url)).json["error"]
        await trio.sleep(assemblyai_jobs.LIFETIME_S + 1)
        assert (await api.transcript(MODELS[0]))["text"] == TEXT


HOOK = {"webhook_url": "http://files.test/hook?a=1", "webhook_auth_header_name": "X-Secret", "webhook_auth_header_value": "s 1"}


@pytest.mark.parametrize(
    ("answers", "calls"), [([(200, b"")], 1), ([(500, b""), (302, b""), (204, b"")], 3), ([(403, b"")], 1), ([(500, b"")] * 20, 10)]
)
async def test_a_webhook_is_called_as_the_vendor_calls_it(tmp_path, autojump_clock, answers, calls):
    for model in MODELS:
        async with opened(tmp_path) as (world, api):
            world.answers = list(answers)
            job = await api.transcript(model, **HOOK)
            assert job["text"] == TEXT
            await trio.sleep(200)
            assert len(world.asked) == calls
            call = world.asked[-1]
            assert (call.method, call.path, call.headers[b"x-secret"]) == (b"POST", b"/hook?a=1", b"s 1")
            assert msgspec.json.decode(call.body) == {"transcript_id": job["id"], "status": "completed"}
            assert not any("webhook" in name for name in world.fakes["assemblyai"].asked)  # the vendor does not call
            assert world.plane.gateway.background.running == 0


async def test_a_webhook_that_cannot_be_called_is_refused_at_once(tmp_path, autojump_clock):
    bad = ({"webhook_url": "data:,x"}, {"webhook_url": "ftp://h/"}, {**HOOK, "webhook_auth_header_value": "a\r\nb: c"},
           {**HOOK, "webhook_auth_header_name": "a b"}, {**HOOK, "webhook_auth_header_value": None})  # fmt: skip
    async with opened(tmp_path) as (world, api):
        for members in bad:
            reply = await api.start(MODELS[0], **members)
            assert reply.status == 400, members
        assert world.plane.kept.records == []


async def test_a_transcript_that_fails_says_so_to_the_webhook(tmp_path, autojump_clock):
    async with opened(tmp_path, status=[400]) as (world, api):
        job = await api.transcript("deepgram/nova-3", audio_url=(await api.upload()).json["upload_url"], **HOOK)
        assert (job["status"], world.plane.kept.record.status) == ("error", "error")
        await trio.sleep(1)
        assert msgspec.json.decode(world.asked[0].body) == {"transcript_id": job["id"], "status": "error"}


# ---- over real sockets, with a database


SIM = """
providers: {sim: {latency_ms: 300}}
models: {stt: {sim/tone: {}}, llm: {sim/echo: {}}}
"""


@asynccontextmanager
async def running(folder, more=""):
    """Yield a function that asks, and the drain; leaving stops the gateway at once."""
    async with open_test_gateway(folder, SIM + f"serve: {{port: 0{more}}}\n") as gateway:
        drain, client = Drain(), Pool()
        async with trio.open_nursery() as nursery:
            (url,) = await nursery.start(serve, gateway, drain, nursery.cancel_scope)

            async def ask(method, path, body=b""):
                kind = [(b"content-type", b"application/json")]
                async with client.open("client", method, Origin.parse(url), path.encode(), kind, body) as response:
                    return response.status, msgspec.json.decode(await response.read())

            yield ask, drain, nursery.cancel_scope
            await client.aclose()
            drain.halt()
            nursery.cancel_scope.cancel()


async def begin(ask):
    _, uploaded = await ask(b"POST", "/v2/upload", recording())
    body = msgspec.json.encode({"audio_url": uploaded["upload_url"], "speech_model": "sim/tone"})
    status, job = await ask(b"POST", "/v2/transcript", body)
    assert (status, job["status"]) == (200, "processing")
    return job["id"]


async def test_a_drain_waits_for_transcripts_and_they_are_there_after_the_restart(tmp_path):
    with trio.fail_after(120):
        async with running(tmp_path) as (ask, drain, _):
            id_ = await begin(ask)
            assert drain.in_flight == 1
            drain.begin(60.0)
            await drain.wait_idle()
        async with running(tmp_path) as (ask, _, _):
            status, job = await ask(b"GET", f"/v2/transcript/{id_}")
            assert (status, job["status"]) == (200, "completed")
            assert job["text"]
            assert [one["id"] for one in (await ask(b"GET", "/v2/transcript"))[1]["transcripts"]] == [id_]


async def test_a_transcript_that_is_cut_says_so_after_the_restart(tmp_path):
    with trio.fail_after(120):
        async with running(tmp_path) as (ask, _, _):
            id_ = await begin(ask)
        async with running(tmp_path) as (ask, _, _):
            status, job = await ask(b"GET", f"/v2/transcript/{id_}")
            assert (status, job["status"]) == (200, "error")
            assert "send the recording again" in job["error"]


async def test_transcripts_count_as_requests_in_flight(tmp_path):
    with trio.fail_after(120):
        async with running(tmp_path, ", max_in_flight: 1") as (ask, drain, _):
            id_ = await begin(ask)
            assert drain.in_flight == 1
            status, job = await ask(b"GET", f"/v2/transcript/{id_}")  # waits for the place that the transcript has
            assert (status, job["status"]) == (200, "completed")
            assert drain.places is not None
            assert (drain.places.waiting, drain.places.promised) == (0, 0)
