"""The provider's metadata and keys: cached, renewed, and checked. The network is in memory, so hours pass at once."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing

from gw.config.sign_in_settings import Oidc, RoleRule
from gw.errors import SignInRefused
from gw.net.http1 import Pool
from gw.net.openid_provider import ANSWER_S, CACHED_S, MAX_CALLS, REFRESH_S, OpenIdProvider
from gw.types.secret import Secret
from tests.fakes.fake_openid import EMAIL, FakeOpenId
from tests.fakes.hosting import hosted
from tests.fakes.net import FakeNet
from tests.fakes.temporary_gateway import SetClock

RULE = RoleRule(claim="groups", value="staff", role="viewer")


@asynccontextmanager
async def open_provider():
    """Yield a provider, and the gateway's side of it."""
    clock = SetClock()
    fake = FakeOpenId(now=clock.now, issuer="https://login.example")
    settings = Oidc(
        issuer=fake.issuer, client_id=fake.client_id, client_secret=Secret(fake.client_secret), public_url="https://gw.example",
        roles=(RULE,),
    )  # fmt: skip
    async with trio.open_nursery() as nursery:
        net = FakeNet(nursery)
        net.hosts["login.example", 443] = hosted(fake)
        pool = Pool(connect=net)
        yield fake, OpenIdProvider(settings, pool, clock)
        await pool.aclose()
        nursery.cancel_scope.cancel()


async def sign_in(fake: FakeOpenId, provider: OpenIdProvider):
    challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"  # RFC 7636, appendix B
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    address = await provider.authorization_url(state="state", nonce="nonce", challenge=challenge)
    query = fake.authorize(address)
    return await provider.exchange(query["code"], verifier=verifier, nonce="nonce")


async def test_metadata_and_keys_are_fetched_once_an_hour(autojump_clock):
    async with open_provider() as (fake, provider):
        for _ in range(3):
            assert (await sign_in(fake, provider))["email"] == EMAIL
        assert fake.calls.count("/.well-known/openid-configuration") == 1
        assert fake.calls.count("/jwks") == 1
        await trio.sleep(CACHED_S)
        await sign_in(fake, provider)
        assert fake.calls.count("/.well-known/openid-configuration") == 2
        assert fake.calls.count("/jwks") == 2


async def test_a_new_key_is_fetched_when_a_token_has_it(autojump_clock):
    async with open_provider() as (fake, provider):
        await sign_in(fake, provider)
        fake.new_key("second")
        await trio.sleep(REFRESH_S)
        await sign_in(fake, provider)
        assert fake.calls.count("/jwks") == 2


async def test_a_key_that_the_provider_took_back_counts_no_longer(autojump_clock):
    async with open_provider() as (fake, provider):
        await sign_in(fake, provider)
        stolen = fake.keys[0]
        fake.new_key("second", only=True)
        fake.token = lambda claims: fake.signed(claims, key=stolen)
        await trio.sleep(CACHED_S)
        with pytest.raises(SignInRefused) as refusal:
            await sign_in(fake, provider)
        assert refusal.value.reason == "signature"


async def test_unknown_keys_do_not_make_it_call_the_provider_again_and_again(autojump_clock):
    async with open_provider() as (fake, provider):
        await sign_in(fake, provider)
        fake.token = lambda claims: fake.signed(claims, kid="unknown")
        for _ in range(20):
            with pytest.raises(SignInRefused):
                await sign_in(fake, provider)
        assert fake.calls.count("/jwks") == 1
        await trio.sleep(REFRESH_S)
        for _ in range(20):
            with pytest.raises(SignInRefused):
                await sign_in(fake, provider)
        assert fake.calls.count("/jwks") == 2


async def test_a_provider_that_does_not_answer_is_given_up(autojump_clock):
    async with trio.open_nursery() as nursery:
        net = FakeNet(nursery)

        async def silent(_stream):
            await trio.sleep_forever()

        net.hosts["login.example", 443] = silent
        pool = Pool(connect=net)
        provider = OpenIdProvider(Oidc(issuer="https://login.example", client_id="gw"), pool, SetClock())
        began = trio.current_time()
        with pytest.raises(SignInRefused) as refusal:
            await provider.metadata()
        assert refusal.value.reason == "provider"
        assert trio.current_time() - began == pytest.approx(ANSWER_S)
        await pool.aclose()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [({"keys": "none"}, "provider"), ({"keys": []}, "provider"), ({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "first"}]}, "provider"),
     ({"keys": [{}] * 101}, "provider"), ([], "provider")],
)  # fmt: skip
async def test_what_are_no_public_keys(autojump_clock, answer, reason):
    async with open_provider() as (fake, provider):
        fake.key_set = answer
        with pytest.raises(SignInRefused) as refusal:
            await sign_in(fake, provider)
        assert refusal.value.reason == reason


async def test_a_failure_counts_for_all_who_waited_for_it(autojump_clock):
    async with open_provider() as (fake, provider):
        fake.broken_until, reasons = trio.Event(), []

        async def begin():
            with pytest.raises(SignInRefused) as refusal:
                await provider.metadata()
            reasons.append(refusal.value.what)

        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(begin)
            await trio.testing.wait_all_tasks_blocked()
            fake.broken_until.set()
        assert reasons == ["the provider answered with an error (status 503)"] * 100
        assert fake.calls == ["/.well-known/openid-configuration"]
        fake.broken_until = None
        await sign_in(fake, provider)


async def test_who_has_keys_does_not_wait_for_others(autojump_clock):
    """Signing in goes on while somebody sends tokens with keys that nobody knows, and the provider hangs."""
    async with open_provider() as (fake, provider):
        await sign_in(fake, provider)
        await trio.sleep(REFRESH_S)
        fake.broken_until = trio.Event()
        async with trio.open_nursery() as nursery:
            unknown = fake.signed({"iss": fake.issuer}, kid="unknown")
            nursery.start_soon(refused, provider.check_logout, unknown)
            await trio.testing.wait_all_tasks_blocked()
            began = trio.current_time()
            await provider.metadata()
            await provider.check_logout(fake.logout_token())
            assert trio.current_time() == began
            fake.broken_until.set()


async def refused(call, *arguments):
    with pytest.raises(SignInRefused):
        await call(*arguments)


async def test_calls_at_once_are_limited(autojump_clock):
    async with open_provider() as (fake, provider):
        await provider.metadata()
        fake.broken_until = trio.Event()
        async with trio.open_nursery() as nursery:
            for _ in range(MAX_CALLS):
                nursery.start_soon(partial(refused, partial(provider.exchange, "code", verifier="v", nonce="n")))
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(SignInRefused, match="wait for the provider already"):
                await provider.exchange("code", verifier="v", nonce="n")
            fake.broken_until.set()
        assert fake.calls.count("/token") == MAX_CALLS
        fake.broken_until = None
        await sign_in(fake, provider)
