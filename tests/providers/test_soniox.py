"""Soniox's sessions: their address, their idle time, and the check of a key."""

from __future__ import annotations

import attrs
import pytest
import trio

from gw.errors import ProviderRejected
from gw.net.http1 import Origin, Pool
from gw.providers import soniox
from gw.providers.spec import Account
from gw.types.audio import PCM_16K
from gw.types.secret import Secret
from gw.types.stt import ListenEnd, ListenRequest
from tests.fakes.hosting import hosted
from tests.fakes.net import FakeNet
from tests.fakes.vendors.soniox import FakeSoniox

REQUEST = ListenRequest(model="m", format=PCM_16K, dialect="deepgram")


def account_of(nursery, fake, address=soniox.SPEC.base_url, key="k"):
    net = FakeNet(nursery)
    for host in ("api.soniox.com", "stt-rt.soniox.com", "stt-rt.eu.soniox.com", "own.test"):
        net.hosts[host, 443] = hosted(fake)
    return Account(provider_id="p", model="stt-rt-v5", origin=Origin.parse(address), api_key=Secret(key), pool=Pool(connect=net))


@pytest.mark.parametrize(
    ("address", "host", "path"),
    [
        ("https://api.soniox.com/v1", "stt-rt.soniox.com", "/transcribe-websocket"),
        ("https://api.eu.soniox.com/v1", "stt-rt.eu.soniox.com", "/transcribe-websocket"),
        ("https://own.test/v1", "own.test", "/v1/transcribe-websocket"),
    ],
)
async def test_live_sessions_have_a_host_of_their_own(address, host, path, nursery, autojump_clock):
    fake = FakeSoniox(api_key="k")
    async with soniox.listen(REQUEST, account_of(nursery, fake, address)) as session:
        await session.finish()
        assert await session.receive() == [ListenEnd()]
    (entry,) = fake.ledger
    assert (entry.headers["host"], entry.path, entry.headers["authorization"]) == (host, path, "Bearer k")
    assert entry.fields["model"] == "stt-rt-v5"


async def test_a_pause_is_kept_alive_and_counted(nursery, autojump_clock):
    """The vendor bills the duration of the stream, pauses included."""
    fake = FakeSoniox(api_key="k")
    async with soniox.listen(REQUEST, account_of(nursery, fake)) as session:
        await session.send_audio(bytes(3_200))
        await trio.sleep(31)
        await session.finish()
        assert await session.receive() == [ListenEnd()]
        assert session.padding_s == pytest.approx(30, abs=1)
    kept = [frame for frame in fake.ledger[0].frames if isinstance(frame, str) and "keepalive" in frame]
    assert 5 <= len(kept) <= 6


async def test_a_key_is_checked(nursery, autojump_clock):
    fake = FakeSoniox(api_key="k", prefix="")
    await soniox.check(account_of(nursery, fake))
    with pytest.raises(ProviderRejected) as caught:
        await soniox.check(attrs.evolve(account_of(nursery, fake), api_key=Secret("wrong")))
    assert caught.value.upstream_status == 401
