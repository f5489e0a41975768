"""The health check over the real HTTP client and a network in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio

from gw.admin.providers import CAP_S, check_provider
from gw.net.http1 import Pool
from gw.registry.catalog import Provider
from gw.types.secret import Secret
from tests.fakes.answers import as_json
from tests.fakes.net import FakeNet, ServerSide

KEY = "sk-0123456789abcdef"
OPENAI = Provider(id="oa", type="openai", location="cloud", api_key=Secret(KEY), base_url="http://oa.example/v1")


@attrs.define
class Vendor:
    """Answers every request with `status` after `after_s`."""

    status: int = 200
    after_s: float = 0.0
    requests: list[object] = attrs.field(factory=list)

    async def __call__(self, stream: trio.abc.Stream) -> None:
        side = ServerSide(stream)
        while (request := await side.request()) is not None:
            self.requests.append(request)
            await trio.sleep(self.after_s)
            body = b'{"error": {"message": "raw words of the vendor, key %b"}}' % KEY.encode()
            head = b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            await stream.send_all(head % (self.status, len(body)) + body)


@asynccontextmanager
async def pool_to(handler: object) -> AsyncIterator[Pool]:
    async with trio.open_nursery() as nursery:
        net = FakeNet(nursery)
        net.hosts["oa.example", 80] = handler
        pool = Pool(connect=net)
        yield pool
        await pool.aclose()
        nursery.cancel_scope.cancel()


async def test_a_good_key(autojump_clock):
    vendor = Vendor(after_s=0.25)
    async with pool_to(vendor) as pool:
        health = await check_provider(OPENAI, pool)
    assert as_json(health) == {"status": "ok", "latency_ms": 250, "message": "HTTP 200"}
    (request,) = vendor.requests
    assert (request.method, request.path) == (b"GET", b"/v1/models")
    assert request.headers[b"authorization"] == b"Bearer " + KEY.encode()


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "the key was refused"), (403, "the key was refused"), (404, "check base_url"), (500, "HTTP 500"), (302, "HTTP 302")],
)
async def test_other_answers_fail_without_the_vendor_s_words(autojump_clock, status, words):
    async with pool_to(Vendor(status=status)) as pool:
        health = await check_provider(OPENAI, pool)
    assert not health.ok
    assert words in health.message
    assert "raw words" not in health.message
    assert KEY not in health.message


async def test_no_answer_within_the_cap(autojump_clock):
    async with pool_to(Vendor(after_s=60.0)) as pool:
        health = await check_provider(OPENAI, pool)
    assert (health.ok, health.latency_ms) == (False, round(CAP_S * 1000))
    assert "10 s" in health.message


@pytest.mark.parametrize("handler", [ConnectionRefusedError(), None])
async def test_nobody_there(autojump_clock, handler):
    async with pool_to(handler) as pool:
        health = await check_provider(OPENAI, pool)
    assert not health.ok
    assert health.message.startswith("oa: unreachable")


@pytest.mark.parametrize(
    ("provider", "ok", "words"),
    [
        (Provider(id="sim", type="sim", location="local"), True, "inside the gateway"),
        (attrs.evolve(OPENAI, api_key=Secret("")), False, "no API key"),
        (attrs.evolve(OPENAI, key_error="the secret has changed"), False, "the secret has changed"),
        (attrs.evolve(OPENAI, enabled=False), False, "switched off"),
        (attrs.evolve(OPENAI, base_url="ftp://oa.example"), False, "base_url"),
        (attrs.evolve(OPENAI, type="nothing"), False, "unknown provider 'nothing'"),
    ],
)
async def test_what_needs_no_request(provider, ok, words):
    health = await check_provider(provider, Pool())
    assert health.ok is ok
    assert words in health.message


async def test_an_address_made_through_the_api_must_not_lead_inside():
    """Like every other call, it checks the address that a name resolves to when it connects."""
    pool = Pool()
    health = await check_provider(attrs.evolve(OPENAI, base_url="http://localhost:1/v1", public_only=True), pool)
    await pool.aclose()
    assert (health.ok, "is a private address" in health.message) == (False, True)
