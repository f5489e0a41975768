import json
import socket
import subprocess
import sys

import httpx2
import pytest

from gw.errors import ProviderUnreachable, UpstreamProtocolError
from gw.net.http1 import Origin, Pool
from gw.net.http_client import PROBE_MAX_BYTES, client, probe
from gw.types.secret import Secret
from tests.fakes.net import FakeNet, ServerSide

ORIGIN = Origin.parse("https://up.example/v1")


@pytest.fixture
async def net(nursery):
    return FakeNet(nursery)


def answers(status, body=b"", *headers):
    async def handler(stream):
        server = ServerSide(stream)
        while request := await server.request():
            seen.append(request)
            await server.respond(status, body, *headers)

    seen = []
    return handler, seen


async def test_a_probe_tells_status_and_body(net):
    handler, seen = answers(200, b'{"data":[]}', (b"x-a", b"1"))
    net.hosts["up.example", 443] = handler
    result = await probe(Pool(connect=net), "up", ORIGIN, "/models", [(b"authorization", b"Bearer k")])
    assert (result.status, result.body) == (200, b'{"data":[]}')
    assert (b"x-a", b"1") in result.headers
    assert "data" not in repr(result)
    assert (seen[0].method, seen[0].path) == (b"GET", b"/v1/models")
    assert seen[0].headers[b"accept-encoding"] == b"identity"


@pytest.mark.parametrize("status", [302, 401, 503])
async def test_a_probe_takes_any_status_and_follows_nothing(net, status):
    handler, seen = answers(status, b"", (b"location", b"https://evil.example/"))
    net.hosts["up.example", 443] = handler
    assert (await probe(Pool(connect=net), "up", ORIGIN, "/models")).status == status
    assert len(seen) == len(net.transports) == 1


async def test_a_probe_of_nobody(net):
    with pytest.raises(ProviderUnreachable):
        await probe(Pool(connect=net), "up", ORIGIN, "/models")


async def test_a_probe_reads_no_endless_answer(net):
    net.hosts["up.example", 443], _ = answers(200, bytes(PROBE_MAX_BYTES + 1))
    with pytest.raises(UpstreamProtocolError):
        await probe(Pool(connect=net), "up", ORIGIN, "/models")
    assert net.open == 0


def test_the_client_sends_its_token_and_follows_nothing():
    seen = []

    def handler(request):
        seen.append(request)
        return httpx2.Response(302, headers={"location": "http://evil.example/"}, content=b"{}")

    with client("http://gw.example/", Secret("token-1"), transport=httpx2.MockTransport(handler)) as http:
        answer = http.get("/api/overview", params={"range": "24h"})
    assert (answer.status_code, answer.json()) == (302, {})
    assert str(seen[0].url) == "http://gw.example/api/overview?range=24h"
    assert seen[0].headers["authorization"] == "Bearer token-1"
    assert seen[0].headers["accept-encoding"] == "identity"
    assert len(seen) == 1


def test_the_client_without_a_token_sends_none():
    seen = []

    def handler(request):
        seen.append(request)
        return httpx2.Response(200)

    with client("http://gw.example", transport=httpx2.MockTransport(handler)) as http:
        http.post("/api/x", json={"a": 1})
    assert "authorization" not in seen[0].headers
    assert json.loads(seen[0].content) == {"a": 1}


def test_a_gateway_that_is_not_there(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:1")  # must be ignored
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{sock.getsockname()[1]}"
        with client(address) as http, pytest.raises(ConnectionError, match=address) as caught:
            http.get("/health")
    assert isinstance(caught.value, ProviderUnreachable)


def test_importing_the_module_loads_no_library():
    code = "import sys, gw.net.http_client; print(sorted({'httpx2', 'trio', 'httptools', 'websockets'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
