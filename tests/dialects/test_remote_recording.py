"""Recordings named by their address: the same vendor gets the address, another one the audio, fetched here."""

from __future__ import annotations

from typing import Any

import attrs
import msgspec
import pytest
import trio

from gw.net import recordings
from gw.net.http_response import FINISH_S
from gw.types.audio import PCM_16K
from tests.contract.endpoints import BOUNDARY, recording
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.net import ServerSide
from tests.fakes.vendors.assemblyai import FakeAssemblyAI
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs
from tests.fakes.vendors.openai import FakeOpenAI

URL = "http://files.test/calls/one.wav?token=a%20b"
TEXT = "Hello there."
REMOTE_S = 12.0
LOCAL_S = PCM_16K.seconds(len(recording()) - 44)
CONFIG = """
providers:
  deepgram: {api_key: k, base_url: "http://deepgram.test"}
  assemblyai: {api_key: k, base_url: "http://assemblyai.test"}
  elevenlabs: {api_key: k, base_url: "http://elevenlabs.test"}
  groq: {api_key: k, base_url: "http://groq.test/openai/v1"}
  openai: {api_key: k, base_url: "http://openai.test/v1"}
models:
  stt: [deepgram/nova-3, assemblyai/universal-2, elevenlabs/scribe_v2, groq/whisper-large-v3, openai/whisper-1]
fallbacks: {stt: [deepgram/nova-3, elevenlabs/scribe_v2]}
serve: {max_body_mb: 1}
"""
ALONE = {"x_gw_fallback": "off"}
MODELS = {
    "deepgram": "deepgram/nova-3", "assemblyai": "assemblyai/universal-2", "elevenlabs": "elevenlabs/scribe_v2",
    "groq": "groq/whisper-large-v3", "openai": "openai/whisper-1",
}  # fmt: skip
OWN = {"deepgram": "deepgram", "assemblyai": "assemblyai", "elevenlabs": "elevenlabs", "groq": "groq"}


def form(**fields: str) -> tuple[bytes, str]:
    parts = [f'--{BOUNDARY.decode()}\r\nContent-Disposition: form-data; name="{n}"\r\n\r\n{v}\r\n' for n, v in fields.items()]
    return "".join([*parts, f"--{BOUNDARY.decode()}--\r\n"]).encode(), "multipart/form-data; boundary=" + BOUNDARY.decode()


@attrs.define
class World:
    plane: Any
    fakes: dict[str, Any]
    asked: list[Any] = attrs.field(factory=list)
    """Requests that the file server received."""
    answers: list[Any] = attrs.field(factory=list)
    """What it answers, in order, instead of the recording: arguments of `ServerSide.respond`."""
    stalls: bool = False

    async def serve_files(self, stream: trio.abc.Stream) -> None:
        side = ServerSide(stream)
        while (request := await side.request()) is not None:
            self.asked.append(request)
            if self.stalls:
                continue
            answer = self.answers.pop(0) if self.answers else (200, recording(), (b"content-type", b"audio/wav"))
            await side.respond(*answer)

    async def ask(self, dialect: str, model: str, url: str = URL, **fields: str) -> tuple[int, Any, str]:
        """Return status, the text or the error's message, and the error's code."""
        if dialect == "assemblyai":
            return await self._poll(model, url)
        if dialect == "deepgram":
            body = (msgspec.json.encode({"url": url}), "application/json")
            reply = await self.plane.post(f"/v1/listen?model={model}", *body, **ALONE)
            text = ["results", "channels", 0, "alternatives", 0, "transcript"]
        elif dialect == "elevenlabs":
            reply = await self.plane.post("/v1/speech-to-text", *form(model_id=model, **{fields.pop("field", "source_url"): url}), **ALONE)
            text = ["text"]
        else:
            reply = await self.plane.post("/v1/audio/transcriptions", *form(model=model, url=url, **fields), **ALONE)
            text = ["text"]
        found = reply.json
        if reply.status != 200:
            return reply.status, reply.body.decode(), ""
        for step in text:
            found = found[step]
        return reply.status, found, ""

    async def _poll(self, model: str, url: str) -> tuple[int, Any, str]:
        body = msgspec.json.encode({"audio_url": url, "speech_models": [model]})
        reply = await self.plane.post("/v2/transcript", body, **ALONE)
        if reply.status != 200:
            return reply.status, reply.body.decode(), ""
        job = reply.json
        while job["status"] not in ("completed", "error"):
            await trio.sleep(1)
            job = (await get(self.plane, f"/v2/transcript/{job['id']}")).json
        return 200, job["text"] if job["status"] == "completed" else job["error"], job["status"]


async def get(plane: Any, path: str, method: bytes = b"GET") -> Any:
    from tests.fakes.hosting import GATEWAY, Reply

    async with plane.client.open("client", method, GATEWAY, path.encode(), []) as response:
        body = await response.read()
        headers = {name.decode(): value.decode() for name, value in response.headers}
        return Reply(status=response.status, headers=headers, pieces=[(0, body)], cut=False, took_s=0)


@pytest.fixture
async def world(tmp_path, autojump_clock):
    fakes: dict[str, Any] = {
        "deepgram": FakeDeepgram(api_key="k", transcript=TEXT), "assemblyai": FakeAssemblyAI(api_key="k", transcript=TEXT),
        "elevenlabs": FakeElevenLabs(api_key="k", transcript=TEXT),
        "groq": FakeOpenAI(api_key="k", prefix="/openai/v1", transcript=TEXT), "openai": FakeOpenAI(api_key="k", transcript=TEXT),
    }  # fmt: skip
    async with open_plane(CONFIG, tmp_path) as plane:
        for name, fake in fakes.items():
            fake.remote_s = REMOTE_S
            plane.net.hosts[f"{name}.test", 80] = hosted(fake)
        made = World(plane, fakes)
        plane.net.hosts["files.test", 80] = made.serve_files
        yield made


async def test_the_same_vendor_gets_the_address_and_others_the_audio(world, autojump_clock):
    """25 cells; in each the record has the seconds that the vendor reports, or of the audio that was fetched."""
    cells = 0
    for dialect, own in (*OWN.items(), ("elevenlabs", "elevenlabs")):
        for vendor, model in MODELS.items():
            before, fake = len(world.asked), world.fakes[vendor]
            status, text, _ = await world.ask(dialect, model, field="cloud_storage_url" if cells >= 20 else "source_url")
            assert (status, text) == (200, TEXT), (dialect, vendor)
            received = fake.asked["audio_url"] if vendor == "assemblyai" else fake.ledger[-1].fields.get("url")
            record, fetched = world.plane.kept.records[-1], len(world.asked) - before
            if vendor == own:
                assert (received, fetched, record.usage.audio_seconds) == (URL, 0, REMOTE_S), (dialect, vendor)
            else:
                sent = fake.uploaded if vendor == "assemblyai" else fake.ledger[-1].audio
                assert (sent, fetched) == (recording(), 1), (dialect, vendor)
                within = 0.5 if vendor in ("assemblyai", "openai", "groq") else 0.01  # which reports whole seconds
                assert record.usage.audio_seconds == pytest.approx(LOCAL_S, abs=within), (dialect, vendor)
                assert received != URL
            cells += 1
    assert cells == 25
    assert {request.path for request in world.asked} == {b"/calls/one.wav?token=a%20b"}
    assert not {b"authorization", b"cookie", b"xi-api-key"} & set().union(*(request.headers for request in world.asked))


async def test_after_the_vendor_failed_the_next_one_gets_the_audio(world, autojump_clock):
    world.fakes["deepgram"].status = 503
    body = msgspec.json.encode({"url": URL})
    reply = await world.plane.post("/v1/listen?model=deepgram/nova-3", body)
    assert (reply.status, reply.headers["x-gw-model"]) == (200, "elevenlabs/scribe_v2")
    assert world.fakes["deepgram"].ledger[-1].fields["url"] == URL
    assert world.fakes["elevenlabs"].ledger[-1].audio == recording()
    assert world.plane.kept.record.usage.audio_seconds == pytest.approx(LOCAL_S, abs=0.01)


async def test_what_cannot_be_fetched_leaves_the_vendors_failure_as_the_answer(world, autojump_clock):
    """The caller's SDK retries it, as it would without a chain."""
    world.fakes["deepgram"].status, world.answers = 503, [(404, b"")] * 9
    body = msgspec.json.encode({"url": URL})
    reply = await world.plane.post("/v1/listen?model=deepgram/nova-3", body)
    assert reply.status in (502, 503)
    assert b"its server answered 404" in reply.body
    assert len(world.asked) == 1


REFUSED = {
    "data:audio/wav;base64,AAAA": "data: URL",
    "ftp://files.test/a.wav": "must be",
    "file:///etc/passwd": "must be",
    "http://u:p@files.test/a.wav": "user name",
    "gopher://files.test/": "must be",
    "": "address",
}


async def test_addresses_that_are_never_called(world, autojump_clock):
    for dialect, own in OWN.items():
        for model in (MODELS[own], MODELS["openai"]):
            for url, why in REFUSED.items():
                if not url and dialect in ("elevenlabs", "groq"):
                    continue  # a form without an address has no recording
                status, message, _ = await world.ask(dialect, model, url)
                assert status == 400, (dialect, url, message)
                assert why in message, (dialect, url, message)
    assert world.asked == []


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([(404, b"")], "its server answered 404"),
        ([(200, b"")], "it is empty"),
        ([(200, b"<html>", (b"content-type", b"text/html; charset=utf-8"))], "not a recording"),
        ([(200, bytes(1_000_001))], "larger than serve.max_body_mb"),
        ([(302, b"", (b"location", b"/again"))] * 4, "more than 3 redirects"),
        ([(302, b"", (b"location", b"data:,x"))], "data: URL"),
        ([(307, b"", (b"location", b"http://nowhere.test/a.wav"))], "nowhere.test"),
    ],
)
async def test_what_cannot_be_fetched_says_why(world, autojump_clock, answers, why):
    for dialect in OWN:
        world.answers = list(answers)
        status, message, state = await world.ask(dialect, MODELS["openai"])
        assert (status, state) in ((400, ""), (413, ""), (200, "error")), (dialect, message)
        assert why in message, (dialect, message)
        assert world.plane.kept.records[-1].attempts == ()
    assert world.fakes["openai"].ledger == []


async def test_three_redirects_are_followed(world, autojump_clock):
    world.answers = [(301, b"", (b"location", b"/b")), (302, b"", (b"location", b"http://files.test/c")), (308, b"", (b"location", b"d"))]
    assert (await world.ask("deepgram", MODELS["openai"]))[:2] == (200, TEXT)
    assert [request.path for request in world.asked] == [b"/calls/one.wav?token=a%20b", b"/b", b"/c", b"/d"]


async def test_a_host_that_never_answers_is_given_up_and_no_provider_is_blamed(world, autojump_clock):
    world.stalls = True
    began = trio.current_time()
    status, message, _ = await world.ask("deepgram", MODELS["openai"])
    assert (status, trio.current_time() - began) == (400, pytest.approx(recordings.FETCH_S, abs=1))
    assert "was not complete" in message
    assert world.fakes["openai"].ledger == []
    world.stalls = False
    assert (await world.ask("deepgram", MODELS["openai"]))[0] == 200
    await trio.sleep(FINISH_S)


async def test_a_file_and_an_address_are_one_too_many(world, autojump_clock):
    for path, name in (("/v1/audio/transcriptions", "url"), ("/v1/speech-to-text", "source_url")):
        head, kind = form(model="openai/whisper-1", model_id="openai/whisper-1", **{name: URL})
        file = b'--%b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\nabc\r\n' % BOUNDARY
        reply = await world.plane.post(path, file + head, kind)
        assert reply.status == 400
        assert b"send the recording once" in reply.body
