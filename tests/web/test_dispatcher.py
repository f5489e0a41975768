"""A daemon's dispatch before and after the control plane is loaded."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from gw.types.asgi import ASGIApp
from gw.web.dispatcher import LOAD_AFTER_S, Dispatcher
from gw.web.drain import Drain
from tests.fakes.temporary_gateway import call


async def _data_plane(scope, receive, send):
    raise AssertionError("no request of these is for the data plane")


def _serves(method: bytes, path: bytes) -> bool:
    return path == b"/v1/chat/completions"


@pytest.fixture
def dispatcher(gateway) -> Dispatcher:
    return Dispatcher(gateway, _data_plane, _serves, Drain())


def _app(dispatcher: Dispatcher) -> ASGIApp:
    async def app(scope, receive, send):
        await dispatcher(scope["method"].encode(), scope["path"].encode()).app(scope, receive, send)

    return app


async def test_apps_are_served_whether_the_control_plane_is_loaded_or_not(dispatcher):
    before = dispatcher(b"POST", b"/v1/chat/completions")
    assert (await call(_app(dispatcher), "/health")).status == 200
    after = dispatcher(b"POST", b"/v1/chat/completions")
    for hosted in (before, after):
        assert (hosted.counted, hosted.waits, hosted.websockets) == (True, True, True)


async def test_first_requests_to_the_control_plane_are_answered_and_load_it_once(dispatcher):
    app, answers = _app(dispatcher), []

    async def request(path):
        answers.append((path, (await call(app, path)).status))

    async with trio.open_nursery() as nursery:
        for path in ("/health", "/v1/status", "/nowhere"):
            nursery.start_soon(request, path)
    assert sorted(answers) == [("/health", 200), ("/nowhere", 404), ("/v1/status", 200)]
    reading = dispatcher(b"GET", b"/health")
    assert reading is dispatcher(b"GET", b"/v1/status")
    assert reading is not dispatcher(b"POST", b"/v1/projects"), "changes have an app of their own"
    assert not reading.websockets
    assert not reading.counted


async def test_it_is_loaded_soon_without_a_request(dispatcher, mock_clock):
    loading = dispatcher(b"GET", b"/health")
    async with trio.open_nursery() as loads:
        loads.start_soon(dispatcher.load_soon)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(LOAD_AFTER_S * 0.9)
        await trio.testing.wait_all_tasks_blocked()
        assert dispatcher(b"GET", b"/health") is loading
        mock_clock.jump(LOAD_AFTER_S)
    assert dispatcher(b"GET", b"/health") is not loading
    assert (await call(_app(dispatcher), "/health")).status == 200
