"""Voices, models, plans and tokens, as the vendors' clients ask for them."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from tests.fakes.running import open_running
from tests.fakes.temporary_gateway import NOON, SetClock

KEY, TILL, ADMIN = "gwk_shop-8351026789", "gwk_till-8351026789", "admin-8351026789"
CONFIG = f"""
providers: {{sim: {{latency_ms: 0}}, kokoro: {{base_url: "http://127.0.0.1:9/v1"}}}}
models:
  llm: [sim/echo]
  stt: {{sim/tone: {{}}}}
  tts: {{sim/tone: {{default_voice: tone}}, kokoro/kokoro: {{default_voice: af_sky, default_language: en}}}}
voices: {{anna: {{kokoro: af_heart}}, otto: {{kokoro: am_adam, sim: tone}}}}
projects: {{shop: {{}}}}
auth: {{admin_token: {ADMIN}, keys: [{{key: {KEY}, project: shop, name: browser}}, {{key: {TILL}, project: default}}]}}
"""
VOICES = ["anna", "otto", "tone", "af_sky"]
GRANTS = [
    ("POST", "/v1/auth/grant", {"ttl_seconds": 40}, "access_token", 40),
    ("POST", "/v1/auth/grant", None, "access_token", 30),
    ("POST", "/access-token", {"grants": {"tts": True}, "expires_in": 90}, "token", 90),
    ("GET", "/v3/token?expires_in_seconds=120&max_session_duration_seconds=600", None, "token", 120),
]


@pytest.fixture
async def running(tmp_path):
    async with open_running(tmp_path, CONFIG, SetClock(NOON)) as result:
        yield result


@pytest.mark.parametrize("root", ["", "/elevenlabs"])
async def test_elevenlabs_voices(running, root):
    answer = await running.get(root + "/v1/voices", xi_api_key=KEY)
    result = {voice["voice_id"]: voice for voice in answer.json["voices"]}
    assert (answer.status, list(result)) == (200, VOICES)
    assert result["otto"]["high_quality_base_model_ids"] == ["sim/tone", "kokoro/kokoro"]
    assert result["anna"]["high_quality_base_model_ids"] == ["kokoro/kokoro"]
    assert result["anna"]["labels"] == {"language": "en"}
    one = await running.get(root + "/v1/voices/anna", xi_api_key=KEY)
    assert one.json == result["anna"]
    none = await running.get(root + "/v1/voices/nobody", xi_api_key=KEY)
    assert (none.status, none.json["detail"]["status"]) == (404, "voice_not_found")


@pytest.mark.parametrize(("vendor", "path", "id_"), [("elevenlabs", "/v1/voices/", "voice_id"), ("cartesia", "/voices/", "id")])
async def test_a_voice_that_its_vendor_may_know_is_found(tmp_path, vendor, path, id_):
    model = {"elevenlabs": "eleven_v3", "cartesia": "sonic-3"}[vendor]
    config = f"providers: {{{vendor}: {{api_key: k, base_url: 'http://127.0.0.1:1'}}}}\nmodels: {{tts: [{vendor}/{model}]}}\n"
    async with open_running(tmp_path, config) as running:
        answer = await running.get(path + "IRHApOXLvnW57QJPQH2P")
        assert (answer.status, answer.json[id_]) == (200, "IRHApOXLvnW57QJPQH2P")


async def test_pages_of_voices(running):
    first = (await running.get("/v2/voices?page_size=3", xi_api_key=KEY)).json
    assert [voice["voice_id"] for voice in first["voices"]] == VOICES[:3]
    assert (first["has_more"], first["total_count"], first["next_page_token"]) == (True, 4, "tone")
    remaining = (await running.get("/v2/voices?page_size=3&next_page_token=tone", xi_api_key=KEY)).json
    assert ([voice["voice_id"] for voice in remaining["voices"]], remaining["has_more"]) == (["af_sky"], False)
    result = (await running.get("/v2/voices?search=AN", xi_api_key=KEY)).json
    assert [voice["voice_id"] for voice in result["voices"]] == ["anna"]
    for wrong in ("0", "101", "x", "-1"):
        assert (await running.get(f"/v2/voices?page_size={wrong}", xi_api_key=KEY)).status == 400


@pytest.mark.parametrize("root", ["", "/cartesia"])
async def test_cartesia_voices(running, root):
    seen = []
    answer = (await running.get(root + "/voices?limit=3", x_api_key=KEY)).json
    while answer["data"]:
        seen += [voice["id"] for voice in answer["data"]]
        answer = (await running.get(f"{root}/voices?limit=3&starting_after={seen[-1]}", x_api_key=KEY)).json
    assert seen == VOICES
    assert answer["has_more"] is False
    assert (await running.get(root + "/voices/otto", x_api_key=KEY)).json["name"] == "otto"
    assert [v["id"] for v in (await running.get(root + "/voices?q=sky", x_api_key=KEY)).json["data"]] == ["af_sky"]


async def test_signs_of_life(running):
    for path in ("/", "/cartesia", "/cartesia/"):
        answer = await running.get(path, x_api_key=KEY, cartesia_version="2026-03-01")
        assert (answer.status, answer.json["ok"]) == (200, True)
        assert answer.json["version"]
    plan = (await running.get("/v1/user/subscription", xi_api_key=KEY)).json
    assert plan["character_limit"] - plan["character_count"] > 1_000_000


@pytest.mark.parametrize("root", ["/deepgram", "/anthropic", "/livekit", "/openai"])
async def test_models_under_a_mount_are_those_of_the_root(running, root):
    at_root = await running.get("/v1/models", authorization=f"Bearer {KEY}")
    assert (await running.get(root + "/v1/models", authorization=f"Bearer {KEY}")).json == at_root.json
    bare = await running.get("/elevenlabs/v1/models", xi_api_key=KEY)
    assert bare.json == (await running.get("/v1/models", xi_api_key=KEY)).json


@pytest.mark.parametrize("path", ["/v1/voices", "/voices", "/v1/user/subscription", "/v3/token", "/deepgram/v1/models"])
async def test_nothing_is_listed_without_a_key(running, path):
    answer = await running.get(path)
    assert answer.status == 401
    assert (await running.get(path, authorization="Bearer gwt_AAAA")).status == 401


@pytest.mark.parametrize(("method", "target", "body", "member", "lifetime_s"), GRANTS, ids=lambda value: str(value)[:30])
async def test_a_token_is_a_credential_for_a_while(running, method, target, body, member, lifetime_s):
    with capture_logs() as logs:
        built = await running.ask(method, target, body, authorization=f"Token {KEY}")
        assert built.status == 200, built.body
        token = built.json[member]
        speech = {"model": "sim/tone", "input": "Hi", "voice": "otto"}
        for how in ({"authorization": f"Bearer {token}"}, {"xi_api_key": token}):
            assert (await running.ask("POST", "/v1/audio/speech", speech, **how)).status == 200
        assert (await running.get(f"/v1/voices?single_use_token={token}")).status == 200
        again = await running.ask(method, target, body, authorization=f"Bearer {token}")
        assert again.status == 403
        assert (await running.get("/v1/keys", authorization=f"Bearer {token}")).status == 403
        wrong = await running.ask("POST", "/v1/audio/speech", speech, authorization=f"Bearer {token}", x_gw_project="default")
        assert wrong.status == 403
        running.clock.at += lifetime_s - 1
        assert (await running.get(f"/v1/voices?token={token}")).status == 200
        running.clock.at += 1
        late = await running.get(f"/v1/voices?token={token}")
        assert (late.status, "expired" in late.body.decode()) == (401, True)
    assert token[10:40] not in repr(logs)


async def _single_use(running) -> str:
    built = await running.ask("POST", "/v1/single-use-token/realtime_scribe", authorization=f"Token {KEY}")
    assert built.status == 200
    return built.json["token"]


async def test_a_token_of_one_use(running):
    token, other = await _single_use(running), await _single_use(running)
    wrong = await running.get("/v1/voices", xi_api_key=token, x_gw_project="default")
    assert wrong.status == 403  # and it was not used
    speech = {"model": "sim/tone", "input": "Hi", "voice": "otto"}
    assert (await running.ask("POST", "/v1/audio/speech", speech, xi_api_key=token)).status == 200
    for path in (f"/v1/voices?single_use_token={token}", f"/v1/models?token={token}"):
        again = await running.get(path)
        assert (again.status, "one request" in again.body.decode()) == (401, True)
    running.clock.at += 899
    assert (await running.get("/v1/voices", xi_api_key=other)).status == 200


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/sim/echo", "/v1/voices"])
async def test_a_token_of_one_use_is_used_up_by_a_read(running, path):
    token = await _single_use(running)
    assert (await running.get("/v1/costs", xi_api_key=token)).status == 403  # not let in, so not used
    assert (await running.get("/api/session", xi_api_key=token)).json["principal"] == "key"
    assert (await running.get(path, xi_api_key=token)).status == 200
    again = await running.get(path, xi_api_key=token)
    assert (again.status, "one request" in again.body.decode()) == (401, True)


async def test_a_token_of_one_use_ends(running):
    token = await _single_use(running)
    running.clock.at += 900
    late = await running.get(f"/v1/voices?token={token}")
    assert (late.status, "expired" in late.body.decode()) == (401, True)


async def test_a_token_of_one_use_makes_no_other(running):
    token = await _single_use(running)
    built = await running.ask("POST", "/v1/single-use-token/tts_websocket", authorization=f"Bearer {token}")
    assert built.status == 403


async def test_a_tokens_requests_count_for_its_key(running):
    built = await running.ask("POST", "/v1/auth/grant", authorization=f"Token {KEY}")
    requested = {"model": "sim/tone", "input": "Hi", "voice": "otto"}
    spoken = await running.ask("POST", "/v1/audio/speech", requested, authorization=f"Bearer {built.json['access_token']}")
    record = await running.get(f"/v1/requests/{spoken.headers['x-request-id']}", authorization=f"Bearer {ADMIN}")
    assert (record.json["project"], record.json["key_id"]) == ("shop", "browser")


async def test_a_token_dies_with_its_key(running):
    key = (await running.ask("POST", "/v1/keys", {"project": "shop"}, authorization=f"Bearer {ADMIN}")).json
    token = (await running.ask("POST", "/v1/auth/grant", authorization=f"Token {key['key']}")).json["access_token"]
    assert (await running.get("/v1/voices", authorization=f"Bearer {token}")).status == 200
    closed = await running.ask("DELETE", f"/v1/keys/{key['key_id']}?confirm=true", authorization=f"Bearer {ADMIN}")
    assert closed.status == 200
    assert (await running.get("/v1/voices", authorization=f"Bearer {token}")).status == 401


@pytest.mark.parametrize(
    ("target", "body"),
    [
        ("/v1/auth/grant", {"ttl_seconds": 0}), ("/v1/auth/grant", {"ttl_seconds": 3_601}), ("/v1/auth/grant", {"ttl_seconds": "x"}),
        ("/access-token", {"expires_in": -5}), ("/access-token", [1]), ("/access-token", b"{"),
    ],
)  # fmt: skip
async def test_an_invalid_lifetime(running, target, body):
    assert (await running.ask("POST", target, body, authorization=f"Bearer {KEY}")).status == 400
    assert (await running.get("/v3/token?expires_in_seconds=601", authorization=KEY)).status == 400


async def test_an_open_gateway_issues_and_accepts_tokens(tmp_path):
    async with open_running(tmp_path, CONFIG.partition("auth:")[0]) as running:
        token = (await running.ask("POST", "/access-token")).json["token"]
        assert (await running.get("/voices", authorization=f"Bearer {token}")).status == 200
