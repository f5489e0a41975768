"""404 and 405 in the shape of the vendor whose path or credential it is."""

from __future__ import annotations

import msgspec
import pytest

from gw.dialects.unrouted import answer, dialect_of


def scope_of(**headers: str):
    fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"method": "GET", "headers": fields}


@pytest.mark.parametrize(
    ("path", "headers", "name"),
    [
        ("/v1/nothing", {}, "openai"),
        ("/v1/nothing", {"authorization": "Bearer k"}, "openai"),
        ("/v1/nothing", {"authorization": "Token k"}, "deepgram"),
        ("/v1/nothing", {"authorization": "k"}, "assemblyai"),
        ("/v1/nothing", {"xi_api_key": "k"}, "elevenlabs"),
        ("/v1/nothing", {"x_api_key": "k", "anthropic_version": "2023-06-01"}, "anthropic"),
        ("/nothing", {"cartesia_version": "2026-03-01"}, "cartesia"),
        ("/v1/messages/batches", {"authorization": "Bearer k"}, "anthropic"),
        ("/v1/listen/x", {}, "deepgram"),
        ("/v1/text-to-speech/a/b/c", {}, "elevenlabs"),
        ("/tts/x", {}, "cartesia"),
        ("/v2/transcript/a/b", {}, "assemblyai"),
        ("/ollama/api/nothing", {}, "ollama"),
        ("/deepgram/v1/nothing", {"authorization": "Bearer k"}, "deepgram"),
        ("/nothing", {}, None),
        ("/api/nothing", {"authorization": "Bearer k"}, None),
        ("/ttsx", {}, None),
    ],
)
def test_whose_path_it_is(path, headers, name):
    dialect = dialect_of(scope_of(**headers), path)
    assert (dialect and dialect.name) == name


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/v1/x", {"error": {"type": "invalid_request_error", "code": "unknown_url"}}),
        ("/anthropic/x", {"type": "error", "error": {"type": "not_found_error"}}),
        ("/deepgram/x", {"err_code": "not_found"}),
        ("/elevenlabs/x", {"detail": {"type": "not_found", "code": "not_found", "status": "not_found"}}),
        ("/cartesia/x", {"error_code": "not_found", "title": "Not found"}),
        ("/assemblyai/x", {"error": "unknown path: GET /assemblyai/x"}),
        ("/ollama/x", {"error": "unknown path: GET /ollama/x"}),
    ],
)
def test_the_shape_of_a_404(path, shape):
    def part(of, like):
        return {name: part(of[name], value) if isinstance(value, dict) else of[name] for name, value in like.items()}

    scope = scope_of()
    status, body, _ = answer(dialect_of(scope, path), scope, path, (), "r1")
    decoded = msgspec.json.decode(body)
    assert (status, part(decoded, shape)) == (404, shape)
    inner = decoded if "gw" in decoded else decoded.get("detail") or decoded["error"]
    assert (inner["gw"]["type"], inner["gw"]["code"], inner["gw"]["request_id"]) == ("NotFound", "not_found", "r1")


def test_a_wrong_method_names_the_right_ones():
    scope = scope_of()
    status, body, headers = answer(dialect_of(scope, "/v1/messages"), scope, "/v1/messages", ["POST"], "r1")
    assert (status, dict(headers)[b"allow"], dict(headers)[b"request-id"]) == (405, b"POST", b"r1")
    assert msgspec.json.decode(body)["error"]["type"] == "invalid_request_error"
