import msgspec
import pytest

from gw.web.http_errors import Refused, closing_response, crashed, overloaded


def test_a_refusal_is_a_closing_response_that_closes():
    refused = Refused(431, "too many fields")
    head, _, body = refused.response().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert b"connection: close" in head
    assert b"x-request-id: " + refused.request_id.encode() in head
    assert b"content-length: %d" % len(body) in head
    assert msgspec.json.decode(body) == {
        "error": {
            "type": "TooLarge",
            "code": "too_large",
            "message": "too many fields",
            "param": None,
            "request_id": refused.request_id,
        }
    }


def test_an_overload_says_when_to_come_back():
    refused = overloaded()
    assert refused.status == 503
    assert (b"retry-after", b"1") in refused.headers
    assert msgspec.json.decode(refused.body)["error"]["code"] == "overloaded"
    assert msgspec.json.decode(refused.body)["error"]["retry_after_s"] == 1


def test_a_crash_carries_the_id_of_its_log_line():
    assert crashed("abc").request_id == "abc"
    assert len(crashed().request_id) == 32


def test_a_head_answer_has_no_body():
    assert Refused(400, "no").response(with_body=False).endswith(b"\r\n\r\n")


def test_line_breaks_in_headers_are_refused():
    with pytest.raises(ValueError, match="line break"):
        closing_response(200, [(b"x", b"a\r\nb: c")], b"")
