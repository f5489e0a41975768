"""Requests around a job: their headers and status, and how long a job is waited for."""

from __future__ import annotations

import attrs
import pytest
import trio

from gw.errors import ProviderFailed, ProviderRejected
from gw.providers import job_call
from gw.wire import vendor_errors
from tests.fakes.hosting import hosted
from tests.fakes.vendors.assemblyai import FakeAssemblyAI


async def test_an_answer_of_success_is_returned(account_at, net, autojump_clock):
    fake = FakeAssemblyAI()
    net.hosts["api.assemblyai.com", 443] = hosted(fake)
    account = attrs.evolve(account_at("assemblyai", model="m"), headers=((b"x-own", b"1"),))
    assert b"transcripts" in await job_call.fetch(account, b"GET", b"/v2/transcript", [(b"a", b"b")], vendor_errors.classify)
    assert (fake.ledger[0].headers["a"], fake.ledger[0].headers["x-own"]) == ("b", "1")
    with pytest.raises(ProviderRejected):
        await job_call.fetch(account, b"GET", b"/other", [], vendor_errors.classify)


async def test_a_job_is_looked_at_less_often_the_longer_it_takes(account_at, autojump_clock):
    began, at = trio.current_time(), []

    async def look():
        at.append(trio.current_time() - began)
        return "done" if len(at) == 7 else None

    assert await job_call.wait_done(account_at("assemblyai", model="m"), look) == "done"
    assert at == pytest.approx([0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 9.0])


async def test_a_job_is_waited_for_an_hour(account_at, autojump_clock):
    async def look():
        return None

    began = trio.current_time()
    with pytest.raises(ProviderFailed, match="within an hour"):
        await job_call.wait_done(account_at("assemblyai", model="m"), look)
    assert trio.current_time() - began == pytest.approx(3_600)
