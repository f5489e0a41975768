from __future__ import annotations

import threading

import click
import pytest

from gw.cli.backend import Backend, DaemonRefused, NoDaemon
from gw.cli.main import ACCESS, FAILED, CommandFailed
from gw.types.secret import Secret
from tests.fakes.gateway_http import Reply, json_reply
from tests.fakes.ports import free_port


@pytest.fixture
def backend(gateway):
    return Backend(url=gateway.url, key=Secret("gwk_test"))


def test_get_sends_the_key_and_leaves_out_what_was_not_asked(gateway, backend):
    gateway.replies["GET /v1/costs"] = json_reply({"total": 1})
    assert backend.get("/v1/costs", period="week", project=None) == {"total": 1}
    (requests,) = gateway.requests
    assert requests.query == {"period": "week"}
    assert requests.headers["Authorization"] == "Bearer gwk_test"


def test_without_a_key_no_credential_is_sent(gateway):
    gateway.replies["GET /health"] = json_reply({})
    Backend(url=gateway.url).get("/health")
    assert gateway.requests[0].headers["Authorization"] is None


def test_an_address_may_lack_its_scheme():
    assert Backend.at("127.0.0.1:9000/", "").url == "http://127.0.0.1:9000"


def test_nobody_listens():
    port = free_port()
    with pytest.raises(NoDaemon, match=f"no gateway answers at http://127.0.0.1:{port}; start one with: gw serve --demo"):
        Backend(url=f"http://127.0.0.1:{port}").get("/health")


@pytest.mark.parametrize(("status", "code"), [(401, ACCESS), (403, ACCESS), (402, FAILED), (500, FAILED)])
def test_a_refusal_is_told_in_the_gateways_words(gateway, backend, status, code):
    body = {"error": {"type": "SomeError", "code": "some_code", "message": "not like this"}}
    gateway.replies["GET /v1/costs"] = json_reply(body, status)
    with pytest.raises(DaemonRefused, match=r"not like this \(some_code\)") as refused:
        backend.get("/v1/costs")
    assert refused.value.status == code


def test_a_refusal_for_want_of_a_key_says_how_to_give_one(gateway, backend):
    gateway.replies["GET /v1/costs"] = json_reply({"error": {"code": "unauthorized", "message": "a key is needed"}}, 401)
    with pytest.raises(DaemonRefused, match="--key or GW_API_KEY"):
        backend.get("/v1/costs")


@pytest.mark.parametrize("body", [b"<html>", b'{"error": "no"}', b'{"error": {}}', b"[]"])
def test_a_refusal_in_another_form(gateway, backend, body):
    gateway.replies["GET /v1/costs"] = Reply([body], 502)
    with pytest.raises(DaemonRefused, match="the gateway answered 502"):
        backend.get("/v1/costs")


def test_something_else_listens_there(gateway, backend):
    gateway.replies["GET /v1/costs"] = Reply([b"<html>hello"])
    with pytest.raises(CommandFailed, match="does not answer as a gateway does"):
        backend.get("/v1/costs")


def test_an_answer_is_read_while_it_arrives(gateway, backend):
    read = threading.Event()

    def chunks():
        yield b"first"
        yield b"second" if read.wait(timeout=60) else b"nobody read the first"

    gateway.replies["POST /v1/audio/speech"] = Reply(chunks())
    with backend.open("POST", "/v1/audio/speech") as answer:
        arriving = answer.http.iter_bytes()
        assert next(arriving) == b"first"
        read.set()
        assert list(arriving) == [b"second"]


def test_an_answer_that_breaks_off_is_not_taken_for_a_gateway_that_is_away(gateway, backend):
    gateway.replies["POST /v1/audio/speech"] = Reply([b"first"], cut=True)
    with pytest.raises(CommandFailed, match="gateway: cut"), backend.open("POST", "/v1/audio/speech") as answer:
        list(answer.http.iter_bytes())


def test_a_record_may_need_a_moment(gateway, backend):
    gateway.replies["GET /v1/requests/r1"] = [json_reply({}, 404), json_reply({"cost_usd": 0.5})]
    assert backend.record("r1") == {"cost_usd": 0.5}


def test_a_record_that_this_key_may_not_see(gateway, backend):
    gateway.replies["GET /v1/requests/r1"] = json_reply({}, 403)
    assert backend.record("r1") is None
    assert len(gateway.requests) == 1


def test_no_request_id_no_record(gateway, backend):
    assert backend.record("") is None
    assert gateway.requests == []


def test_a_change_says_that_it_is_the_command_line(gateway, backend):
    gateway.replies["POST /v1/projects"] = json_reply({"created": True})
    assert backend.change("POST", "/v1/projects", {"project_id": "app"}, confirm=None, cascade=False) == {"created": True}
    (requests,) = gateway.requests
    assert (requests.headers["X-GW-Source"], requests.query, requests.json()) == ("cli", {}, {"project_id": "app"})


@pytest.mark.parametrize("address", ["ftp://x", "http://", "http://x:0", "http://u:p@x", "http://x/?q", "http://ex ample"])
def test_addresses_that_are_none(address):
    with pytest.raises(click.UsageError, match=r"--url: (an address|a port)"):
        Backend.at(address, "")


@pytest.mark.parametrize("key", ["with\u00e9", "two\nlines"])
def test_keys_that_no_header_can_hold(key):
    with pytest.raises(click.UsageError, match="--key"):
        Backend.at("http://127.0.0.1:1", key)


def test_what_the_file_holds_is_no_matter_of_access(gateway, backend):
    barred = {"error": {"code": "read_only", "message": "it stands in gw.yaml"}}
    gateway.replies["DELETE /v1/projects/a"] = json_reply(barred, 403)
    with pytest.raises(DaemonRefused) as refused:
        backend.change("DELETE", "/v1/projects/a")
    assert (refused.value.status, refused.value.code) == (FAILED, "read_only")
