"""Routing between the planes, and what every answer of the control plane has in common."""

from __future__ import annotations

import attrs
import pytest
import structlog

from tests.fakes.temporary_gateway import call


class FakeDataPlane:
    """Stands for the data plane."""

    def __init__(self) -> None:
        self.scopes = []

    def serves(self, method, path):
        return (method, path) in {(b"POST", b"/v1/chat/completions"), (b"GET", b"/v1/listen")}

    async def __call__(self, scope, receive, send):
        self.scopes.append(scope)
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 299, "headers": []})
            await send({"type": "http.response.body", "body": b"data"})


@pytest.fixture
def data_plane() -> FakeDataPlane:
    return FakeDataPlane()


@pytest.fixture
def both(gateway, app_of, data_plane):
    return app_of(gateway, data_plane=data_plane, serves=data_plane.serves)


async def test_its_paths_reach_the_data_plane(both, data_plane):
    answer = await call(both, "/v1/chat/completions?x=1", method="POST", body=b"{}")
    assert (answer.status, answer.body) == (299, b"data")
    assert data_plane.scopes[0]["path"] == "/v1/chat/completions"


async def test_the_same_path_with_another_method_does_not(both, data_plane):
    answer = await call(both, "/v1/chat/completions")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert data_plane.scopes == []


async def test_a_websocket_of_the_data_plane_reaches_it(both, data_plane):
    scope = {"type": "websocket", "path": "/v1/listen", "raw_path": b"/v1/listen", "headers": [], "query_string": b""}
    await both(scope, None, None)
    assert data_plane.scopes == [scope]


async def test_other_websockets_are_refused(both, data_plane):
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "websocket", "path": "/v1/no", "raw_path": b"/v1/no", "headers": [], "extensions": {}}
    await both(scope, None, send)
    assert data_plane.scopes == []
    assert sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize("target", ["/health", "/v1/nothing", "/v1/costs?period=x", "/", "/some/page"])
async def test_every_answer_has_an_id_of_its_own(app, target):
    first, second = await call(app, target), await call(app, target)
    assert len(first.headers["x-request-id"]) == 32
    assert first.headers["x-request-id"] != second.headers["x-request-id"]
    assert first.headers["x-content-type-options"] == "nosniff"


async def test_reports_are_not_cached(app):
    assert (await call(app, "/v1/status")).headers["cache-control"] == "no-store"


async def test_head_has_no_body(app):
    answer = await call(app, "/health", method="HEAD")
    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize(("method", "target"), [("DELETE", "/v1/costs"), ("PUT", "/v1/models"), ("POST", "/health")])
async def test_a_wrong_method_says_which_are_right(app, method, target):
    answer = await call(app, target, method=method)
    assert (answer.status, answer.error["code"]) == (405, "method_not_allowed")
    assert "GET" in answer.headers["allow"]
    assert answer.error["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("target", ["/api/nothing", "/assets/nothing.js", "/nothing", "/healthz", "/metrics", "/v1/costs/x"])
async def test_unknown_paths_of_the_api_are_json_errors(app, method, target):
    answer = await call(app, target, method=method)
    assert (answer.status, answer.error["code"], answer.error["type"]) == (404, "not_found", "NotFound")


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("target", ["/v1/nothing", "/openai/v1/nothing", "/livekit/v1/nothing"])
async def test_unknown_paths_of_openais_protocol_fail_in_its_words(app, method, target):
    answer = await call(app, target, method=method)
    error = answer.error
    assert (answer.status, error["type"], error["code"], error["param"]) == (404, "invalid_request_error", "unknown_url", None)
    assert (error["gw"]["type"], error["gw"]["code"]) == ("NotFound", "not_found")
    assert error["gw"]["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize("target", ["/v1/status/../../etc/passwd", "//etc/passwd", "/%00", "/v1/models/%ff", "/v1/logs?limit=%ff"])
async def test_odd_paths_are_clean_errors(app, target):
    answer = await call(app, target)
    assert answer.status in (404, 422, 503)  # 503: the page of a dashboard that has not been built


class BrokenClock:
    def now(self) -> float:
        raise ZeroDivisionError("secret detail")


async def test_a_fault_of_ours_is_a_500_without_details(gateway, app_of):
    app = app_of(attrs.evolve(gateway, clock=BrokenClock()))
    with structlog.testing.capture_logs() as logs:
        answer = await call(app, "/health")
    assert (answer.status, answer.error["code"]) == (500, "internal_error")
    assert answer.error["message"] == "the gateway failed while handling this request"
    assert b"secret detail" not in answer.body
    assert logs[0]["request_id"] == answer.headers["x-request-id"] == answer.error["request_id"]
