"""Meaning of vendors' error answers for routing, and the parts of them that may be shown."""

import json

import pytest

from gw.errors import (
    ProviderError,
    ProviderFailed,
    ProviderRefused,
    ProviderRejected,
    RateLimitError,
    UpstreamProtocolError,
)
from gw.types.llm import StreamError
from gw.wire.vendor_errors import classify, error_within, filtered, parse_retry_after, stream_error


def body(code: str | None = None, kind: str | None = "invalid_request_error", message: str = "no") -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}}).encode()


@pytest.mark.parametrize(
    ("status", "content", "error", "retryable"),
    [
        (429, body("rate_limit_exceeded", "requests"), RateLimitError, True),
        (429, b"<html>slow down</html>", RateLimitError, True),
        (429, body("insufficient_quota", "insufficient_quota"), ProviderFailed, True),
        (429, body(None, "insufficient_quota"), ProviderFailed, True),
        (429, body("credit_balance_exhausted"), ProviderFailed, True),
        (402, body("payment_required"), ProviderFailed, True),
        (400, body("billing_hard_limit_reached"), ProviderFailed, True),
        (500, b"", ProviderFailed, True),
        (503, body(), ProviderFailed, True),
        (408, b"", ProviderFailed, True),
        (409, b"", ProviderFailed, True),
        (424, b"", ProviderFailed, True),
        (498, body("capacity_exceeded"), ProviderFailed, True),
        (401, body("invalid_api_key"), ProviderRejected, True),
        (403, b"", ProviderRejected, True),
        (404, body("model_not_found"), ProviderRejected, True),
        (413, b"", ProviderRejected, True),
        (301, b"", ProviderRejected, True),
        (400, body("context_length_exceeded"), ProviderRejected, True),
        (400, body("tool_use_failed"), ProviderRejected, True),
        (400, body("model_terms_required"), ProviderRejected, True),
        (400, body("unsupported_parameter"), ProviderRejected, True),
        (400, body("invalid_value"), ProviderRejected, False),
        (400, b"", ProviderRejected, False),
        (422, b'{"detail":[{"loc":["body","input"],"msg":"Field required","type":"missing"}]}', ProviderRejected, False),
        (418, b"", ProviderRejected, False),
        # wrong keys and full contexts of vendors that answer 400 to them; shapes of Gemini, xAI, llama.cpp, vLLM, Cerebras, Mistral
        (400, b'[{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT"}}]', ProviderRejected, True),
        (400, b'{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xai-1."}', ProviderRejected, True),
        (400, b'{"error":{"code":400,"message":"too long","type":"exceed_context_size_error","n_ctx":1}}', ProviderRejected, True),
        (
            400, b'{"object":"error","message":"This model\'s maximum context length is 4096 tokens.","type":"BadRequestError","code":400}',
            ProviderRejected, True,
        ),
        (400, body("context_length_exceeded", message="Current length is 9000 while limit is 8192"), ProviderRejected, True),
        (400, b'{"message":"Current length is 9000 while limit is 8192","type":"x","param":"messages","code":"y"}', ProviderRejected, True),
        (422, b'{"detail":[{"type":"extra_forbidden","loc":["body","user"],"msg":"Extra inputs"}]}', ProviderRejected, False),
        (402, b'{"error":{"code":402,"message":"Insufficient credits"}}', ProviderFailed, True),
        (400, body("content_policy_violation"), ProviderRefused, True),
        (400, body("content_filter", None), ProviderRefused, True),
        (200, body(), UpstreamProtocolError, True),
    ],
)
def test_classification(status, content, error, retryable):
    result = classify("p", status, None, content)
    assert type(result) is error
    assert result.provider == "p"
    assert result.retryable is retryable
    assert result.detail.startswith(f"HTTP {status}")


def test_facts_of_a_limit():
    result = classify("groq", 429, b"7.66", body("rate_limit_exceeded", "tokens", "Limit reached"))
    assert isinstance(result, RateLimitError)
    assert (result.limit_source, result.retry_after_s) == ("upstream", 7.66)
    assert result.detail == "HTTP 429 rate_limit_exceeded: Limit reached"
    dated = classify("groq", 429, b"Wed, 21 Oct 2026 07:28:00 GMT", b"")
    assert isinstance(dated, RateLimitError)
    assert dated.retry_after_s is None, "a date needs a clock"


@pytest.mark.parametrize(
    ("content", "code", "text"),
    [
        (b'{"error":"model \'x\' not found"}', "", "model 'x' not found"),
        (
            b'{"detail":{"error":"invalid_model","message":"Unsupported model","type":"invalid_request_error"}}',
            "invalid_model", "Unsupported model",
        ),
        (b'{"detail":"Not Found"}', "", "Not Found"),
        (b'{"detail":[{"loc":["body"],"msg":"Field required","type":"missing"}]}', "missing", "Field required"),
        (b'{"message":"bare","code":"c1","type":"t"}', "c1", "bare"),
        (b'[{"error":{"code":400,"message":"listed","status":"INVALID"}}]', "400", "listed"),
        (b'{"error":{"message":"m","type":null,"param":null,"code":null}}', "", "m"),
        (b'{"error":{"message":["not text"],"code":{"a":1}}}', "", ""),
        (b"{}", "", ""), (b"[]", "", ""), (b"null", "", ""), (b"12", "", ""), (b'"only text"', "", "only text"),
        (b"\xff\xfe", "", ""), (b"[" * 100_000, "", ""), (b"<html>down</html>", "", ""), (b'{"error":{}}', "", ""),
    ],
)
def test_shapes_of_error_bodies(content, code, text):
    result = classify("p", 400, None, content)
    assert isinstance(result, ProviderRejected)
    assert result.upstream_code == code
    assert result.detail.removeprefix("HTTP 400").removeprefix(f" {code}").removeprefix(": ") == text


def test_kokoros_unknown_model_is_the_candidates_fault():
    content = b'{"detail":{"error":"invalid_model","message":"no","type":"invalid_request_error"}}'
    result = classify("kokoro", 400, None, content)
    assert isinstance(result, ProviderRejected)
    assert result.fault == "candidate"


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcdefghijklmnop", "sk-abc***********wxyz", "gsk_0123456789abcdefghij", "Bearer whatever-it-is",
        "0123456789abcdef0123456789abcdef", "org-AbCdEf123456", "AIzaSyA-1234567890", "my own key",
    ],
)
def test_no_secret_in_an_error(secret):
    message = f"Incorrect API key provided: {secret}. See the docs."
    result = classify("p", 401, None, body("invalid_api_key", message=message), secrets=["my own key", ""])
    assert secret not in str(result)
    assert secret not in repr(result)
    assert "[removed]" in result.detail
    assert "See the docs" in result.detail


def test_a_secret_as_code_is_left_out():
    result = classify("p", 400, None, body("sk-proj-abcdefghijklmnop", "x y"))
    assert isinstance(result, ProviderRejected)
    assert result.upstream_code == ""
    assert result.detail == "HTTP 400: no"


def test_details_are_short_plain_and_do_not_quote_prompts():
    prompt = "tell me everything about the patient named in the letter of Monday"
    assert prompt not in filtered(f"Invalid value: '{prompt}'. Try again")
    assert filtered("a\n\tb\x1b[31m") == "a b [31m"
    assert len(filtered("word " * 1000)) <= 300
    assert filtered("model 'gpt-4.1-mini-2025-04-14' is not there") == "model 'gpt-4.1-mini-2025-04-14' is not there"
    assert filtered("openai/gpt-oss-safeguard-20b-preview is gone") == "openai/gpt-oss-safeguard-20b-preview is gone"
    assert len(classify("p", 500, None, body("c", message="word " * 1000)).detail) == 300


@pytest.mark.parametrize(
    ("value", "now", "seconds"),
    [
        (b"0", None, 0.0), (b" 12 ", None, 12.0), (b"7.66", None, 7.66), (b"999999999", None, 86_400.0),
        (b"-1", None, None), (b"1_0", None, None), (b"inf", None, None), (b"nan", None, None), (b"", None, None),
        (b"1e3", None, None), (b"\xff", 0.0, None), (b"soon", 0.0, None), (b"9" * 400, None, None),
        (b"Thu, 01 Jan 1970 00:01:00 GMT", 10.0, 50.0), (b"Thu, 01 Jan 1970 00:01:00 GMT", 100.0, 0.0),
        (b"Thu, 01 Jan 2099 00:01:00 GMT", 0.0, 86_400.0), (b"Thu, 99 Jan 1970 00:01:00 GMT", 0.0, None),
        (b"Thu, 01 Jan 1970 00:01:00 GMT", None, None),
    ],
)
def test_retry_after(value, now, seconds):
    assert parse_retry_after(value, now) == seconds


def test_faults_inside_a_stream():
    over = b'{"message":"over","code":"overloaded","type":"server_error"}'
    assert stream_error(over) == StreamError(code="overloaded", message="over")
    over = b'{"message":"over","type":"server_error","code":null}'
    assert stream_error(over) == StreamError(code="server_error", message="over")
    assert stream_error("plain text") == StreamError(code="upstream_error", message="plain text")
    assert stream_error(b'{"error":{"message":"m","code":502}}') == StreamError(code="502", message="m")


def test_every_status_is_a_provider_error():
    for status in range(100, 600):
        assert isinstance(classify("p", status, b"x", b"x"), ProviderError)


def test_a_failure_within_an_answer_tells_its_code_only():
    result = error_within("p", {"message": "your prompt was: my secret", "code": "server_error"})
    assert (result.upstream_status, result.upstream_code) == (200, "server_error")
    assert result.detail == "an error inside the answer: server_error"
    assert error_within("p", "my secret").detail == "an error inside the answer: upstream_error"
