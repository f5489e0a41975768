"""Deepgram's `callback`: the request is answered at once, the transcript is sent to the address, and both are recorded."""

from __future__ import annotations

import msgspec
import pytest
import trio

from tests.contract.endpoints import recording
from tests.dialects.test_assemblyai_jobs import MODELS, opened
from tests.dialects.test_remote_recording import TEXT, URL

KEY = {"authorization": "Token gwk_one_8351026789"}
HOOK = "http://files.test/done"


async def ask(world, model, callback=HOOK, *, url="", more=""):
    body, kind = (msgspec.json.encode({"url": url}), "application/json") if url else (recording(), "audio/wav")
    path = f"/v1/listen?model={model}&punctuate=true&callback={callback}{more}"
    return await world.plane.post(path, body, kind, **KEY)


async def test_the_transcript_is_sent_under_the_id_of_the_answer(tmp_path, autojump_clock):
    cells = 0
    for model in MODELS:
        for url in ("", URL):
            for method in ("POST", "PUT"):
                async with opened(tmp_path) as (world, _):
                    reply = await ask(world, model, url=url, more=f"&callback_method={method.lower()}")
                    assert (reply.status, list(reply.json)) == (200, ["request_id"])
                    assert world.plane.kept.records == []  # answered before the work was done
                    await trio.sleep(30)
                    call = world.asked[-1]
                    sent = msgspec.json.decode(call.body)
                    assert (call.method.decode(), call.path) == (method, b"/done")
                    assert call.headers[b"dg-token"] == world.plane.kept.record.key_id.encode()
                    assert sent["metadata"]["request_id"] == reply.json["request_id"] == world.plane.kept.record.id
                    assert sent["results"]["channels"][0]["alternatives"][0]["transcript"] == TEXT
                    assert world.plane.kept.record.usage.audio_seconds > 0
                    assert "callback" not in str(world.fakes["deepgram"].ledger[:1])
                    cells += 1
    assert cells == 8


@pytest.mark.parametrize(("answers", "calls"), [([(404, b""), (500, b""), (200, b"")], 3), ([(500, b"")] * 20, 10)])
async def test_a_callback_is_tried_again_every_thirty_seconds(tmp_path, autojump_clock, answers, calls):
    async with opened(tmp_path) as (world, _):
        world.answers = list(answers)
        await ask(world, MODELS[0])
        await trio.sleep(29)
        assert len(world.asked) == 1
        await trio.sleep(400)
        assert len(world.asked) == calls
        assert len({call.body for call in world.asked}) == 1
        assert world.plane.gateway.background.running == 0


async def test_a_failure_is_sent_too(tmp_path, autojump_clock):
    async with opened(tmp_path, status=[400]) as (world, _):
        reply = await ask(world, MODELS[0])
        await trio.sleep(5)
        sent = msgspec.json.decode(world.asked[0].body)
        assert (reply.status, sent["request_id"]) == (200, reply.json["request_id"])
        assert "err_msg" in sent or "message" in sent
        assert world.plane.kept.record.status == "error"


async def test_the_credential_of_an_address_becomes_basic_authentication(tmp_path, autojump_clock):
    async with opened(tmp_path) as (world, _):
        await ask(world, MODELS[0], "http://me:p%2540ss@files.test/done")
        await trio.sleep(5)
        assert world.asked[0].headers[b"authorization"] == b"Basic bWU6cEBzcw=="


async def test_what_cannot_be_called_back_is_refused_at_once(tmp_path, autojump_clock):
    async with opened(tmp_path) as (world, _):
        for callback, more in (("ftp://files.test/", ""), ("data:,x", ""), ("nothing", ""), (HOOK, "&callback_method=get")):
            assert (await ask(world, MODELS[0], callback, more=more)).status == 400
        assert (await ask(world, "nobody/nothing")).status == 404
        assert world.plane.kept.records == []
