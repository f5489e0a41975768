"""Browsers: what the SDKs of each dialect send is allowed, and what they read is exposed, for listed origins and for `*`.

The headers are those of openai 6.49.0, @anthropic-ai/sdk 1.11.0, groq-sdk 1.7.0, @deepgram/sdk 5.13.0, @elevenlabs/elevenlabs-js 2.73.0,
@cartesia/cartesia-js 4.2.0 and assemblyai 4.41.5.
"""

from __future__ import annotations

import pytest

from tests.contract.endpoints import recording
from tests.fakes.running import open_running

KEY, PAGE = "gwk_page_8351026789", "https://app.example"
CONFIG = f"""
providers: {{sim: {{latency_ms: 0, token_ms: 0}}}}
models: {{llm: [sim/echo], stt: [sim/tone], tts: [sim/tone]}}
rate_limiting: {{sim: {{requests_per_minute: 900}}}}
auth: {{admin_token: admin-token-8351026789, keys: [{{key: {KEY}, project: default}}]}}
"""
STAINLESS = tuple("x-stainless-" + name for name in (
    "arch", "lang", "os", "package-version", "retry-count", "runtime", "runtime-version", "timeout", "helper-method",
))  # fmt: skip
FERN = ("x-fern-language", "x-fern-sdk-name", "x-fern-sdk-version", "x-fern-runtime", "x-fern-runtime-version")
CHAT = {"model": "sim/echo", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 99}
SPEECH = {"model_id": "sim/tone", "transcript": "Hi", "voice": {"mode": "id", "id": "v"},
          "output_format": {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 16_000}}  # fmt: skip
OURS = ("x-request-id", "x-gw-model", "x-gw-attempts")
DIALECTS = {
    # path: (headers that its SDK sends, credential, body, headers that its users read)
    "/v1/chat/completions": (
        (*STAINLESS, "authorization", "content-type", "openai-organization", "openai-project", "idempotency-key"), "authorization",
        CHAT, (*OURS, "x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ),
    "/openai/v1/chat/completions": ((*STAINLESS, "authorization", "content-type"), "authorization", CHAT, OURS),
    "/v1/messages": (
        (*STAINLESS, "x-api-key", "content-type", "anthropic-version", "anthropic-beta", "anthropic-dangerous-direct-browser-access"),
        "x-api-key", CHAT, ("request-id", *OURS),
    ),
    "/v1/listen?model=sim/tone": ((*FERN, "authorization", "content-type"), "authorization", recording(), ("dg-request-id", *OURS)),
    "/v1/text-to-speech/v?output_format=pcm_16000": (
        (*FERN, "xi-api-key", "content-type"), "xi-api-key", {"text": "Hi", "model_id": "sim/tone"},
        ("request-id", "character-cost", *OURS),
    ),
    "/tts/bytes": (
        (*STAINLESS, "authorization", "x-api-key", "cartesia-version", "content-type"), "x-api-key", SPEECH, OURS
    ),
    "/v2/upload": (("authorization", "content-type", "user-agent"), "authorization", recording(), ("x-request-id",)),
}  # fmt: skip
FIELDS = {"authorization": f"Bearer {KEY}", "x-api-key": KEY, "xi-api-key": KEY}


def readable(headers, names) -> bool:
    """Return whether a page may read these headers of an answer: `*` is all of them, as no credentials of the browser are sent."""
    exposed = {name.strip() for name in headers["access-control-expose-headers"].split(",")}
    return "access-control-allow-credentials" not in headers and all("*" in exposed or name in exposed for name in names)


@pytest.mark.parametrize("listed", [PAGE, "*"])
async def test_sdks_in_a_page_may_send_and_read_their_headers(tmp_path, listed):
    page = {"origin": PAGE, "sec_fetch_site": "cross-site", "sec_fetch_mode": "cors"}
    async with open_running(tmp_path, CONFIG + f"serve: {{port: 0, cors_origins: ['{listed}']}}\n") as running:
        for path, (sent, credential, body, read) in DIALECTS.items():
            asked = {"access_control_request_method": "POST", "access_control_request_headers": ",".join(sent)}
            preflight = await running.ask("OPTIONS", path, **page, **asked)
            allowed = {name.strip() for name in preflight.headers["access-control-allow-headers"].split(",")}
            assert (preflight.status, allowed) == (204, set(sent)), path
            assert "POST" in preflight.headers["access-control-allow-methods"]

            kind = "audio/wav" if isinstance(body, bytes) else "application/json"
            fields = {credential.replace("-", "_"): FIELDS[credential], "content_type": kind}
            answer = await running.ask("POST", path, body, **page, **fields)
            assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, PAGE), (path, answer.body)
            assert set(read) <= answer.headers.keys(), (path, sorted(answer.headers))
            assert readable(answer.headers, read), path

            refused = await running.ask("POST", path, body, **page, content_type=kind)
            assert (refused.status, refused.headers["access-control-allow-origin"]) == (401, PAGE), path
            assert readable(refused.headers, ("x-request-id",)), path


async def test_an_origin_that_is_not_listed_gets_nothing(tmp_path):
    page = {"origin": "https://other.example", "sec_fetch_site": "cross-site"}
    async with open_running(tmp_path, CONFIG + f"serve: {{port: 0, cors_origins: ['{PAGE}']}}\n") as running:
        for path in DIALECTS:
            for method in ("OPTIONS", "POST"):
                answer = await running.ask(method, path, b"{}", authorization=f"Bearer {KEY}", **page)
                assert answer.status >= 400, (method, path)
                assert not [name for name in answer.headers if name.startswith("access-control-")], (method, path)
