"""A session that a request creates: failures of the request, addresses that are not connected to, and leaving in between."""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing

from gw.errors import ProviderFailed, ProviderRejected, RateLimitError, UpstreamProtocolError
from gw.providers import gladia
from gw.types.audio import PCM_16K
from gw.types.secret import Secret
from gw.types.stt import ListenRequest
from tests.fakes.hosting import hosted
from tests.fakes.vendors.gladia import FakeGladia

REQUEST = ListenRequest(model="m", format=PCM_16K, dialect="deepgram")


@pytest.fixture
def vendor(net):
    fake = FakeGladia(api_key="k")
    for host, port in (("api.gladia.io", 443), ("eu.gladia.io", 8_443), ("elsewhere.test", 443), ("api.gladia.io", 80)):
        net.hosts[host, port] = hosted(fake)
    return fake


@pytest.fixture
def account(account_at, vendor):
    return attrs.evolve(account_at("gladia", model="solaria-1"), api_key=Secret("k"))


async def begin(account):
    async with gladia.listen(REQUEST, account):
        pass


@pytest.mark.parametrize(
    ("status", "error", "fault"),
    [
        (400, ProviderRejected, "request"), (401, ProviderRejected, "candidate"), (422, ProviderRejected, "request"),
        (429, RateLimitError, ""), (500, ProviderFailed, ""), (503, ProviderFailed, ""),
    ],
)  # fmt: skip
async def test_a_request_that_fails(status, error, fault, account, vendor, autojump_clock):
    vendor.status, vendor.headers = status, [("retry-after", "7")]
    with pytest.raises(error) as caught:
        await begin(account)
    assert caught.value.retryable
    assert getattr(caught.value, "fault", "") == fault
    assert getattr(caught.value, "retry_after_s", 7) == 7
    assert len(vendor.ledger) == 1


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("wss://elsewhere.test", "another host"), ("wss://gladia.io.elsewhere.test", "another host"),
        ("wss://evilgladia.io", "another host"), ("ws://api.gladia.io", "not encrypted"),
        ("https://api.gladia.io", "not one of a WebSocket"), ("wss://user@api.gladia.io", "not one of a WebSocket"),
        ("wss://api.gladia.io:0", "not one of a WebSocket"),
        ("wss://api.gladia.io:x", "not one of a WebSocket"), ("wss://", "not one of a WebSocket"),
        ("wss://api.gladia.io/ ", "not one of a WebSocket"),
    ],
)  # fmt: skip
async def test_an_address_that_is_not_connected_to(address, what, account, vendor, autojump_clock):
    vendor.session_host = address
    with pytest.raises(UpstreamProtocolError, match=what) as caught:
        await begin(account)
    assert "token" not in str(caught.value)
    assert len(vendor.ledger) == 1


async def test_another_host_of_the_vendor(account, vendor, autojump_clock):
    vendor.session_host = "wss://EU.gladia.io:8443"
    await begin(account)
    assert vendor.ledger[1].headers["host"] == "eu.gladia.io:8443"


async def test_an_answer_that_is_none(account, vendor, autojump_clock):
    vendor.malformed = True
    with pytest.raises(UpstreamProtocolError):
        await begin(account)


@pytest.mark.parametrize("late", ["request", "socket"])
async def test_leaving_before_the_session_is_open_closes_what_was_opened(late, account, vendor, net, autojump_clock):
    vendor.first_token_after_s, vendor.answer_after_s = (60, 0) if late == "request" else (0, 2)
    with trio.move_on_after(3) as scope:
        await begin(account)
    assert scope.cancelled_caught
    assert len(vendor.ledger) == (1 if late == "request" else 2)
    await account.pool.aclose()
    await trio.testing.wait_all_tasks_blocked()
    assert (net.open, net.live) == (0, 0)
