"""Signing in with an OpenID provider, over sockets: who is let in, and which answers are refused."""

from __future__ import annotations

import base64
import json
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import attrs
import pytest
from joserfc.jwk import RSAKey

from tests.contract.test_access import ADMIN
from tests.fakes.fake_openid import EMAIL, callback_target, open_fake_openid
from tests.fakes.running import open_running
from tests.fakes.temporary_gateway import YAML, SetClock

PUBLIC = "https://gw.example.com"
ADMIN_HEADER = {"authorization": f"Bearer {ADMIN}"}
RULES = """
      - {claim: groups, value: operators, role: operator, projects: [shop]}
      - {claim: email, value: boss@shop.example, role: admin, capture: true}
      - {claim: groups, value: staff, role: viewer}
"""


def configured(issuer: str, rules: str = RULES, **changes: object) -> str:
    further = "".join(f"    {name}: {value}\n" for name, value in changes.items())
    return (
        YAML
        + f"auth:\n  admin_token: {ADMIN}\n  oidc:\n    issuer: {issuer}\n    client_id: gw\n"
        + f"    client_secret: client-secret-8351026789\n    public_url: {PUBLIC}\n{further}    roles:{rules}"
    )


@attrs.define
class Place:
    running: object
    provider: object

    async def start(self, back_to: str = "/"):
        """Begin to sign in; return where the browser is sent, and its cookie."""
        answer = await self.running.get(f"/api/oidc/start?back_to={back_to}")
        assert answer.status == 302, answer.body
        return answer.headers["location"], {"cookie": answer.headers.get("set-cookie", "").partition(";")[0]}

    async def finish(self, query, cookie):
        """Answer what the provider sent the browser back with."""
        return await self.running.get(callback_target(query), **cookie)

    async def sign_in(self):
        """Sign in; return the answer to the callback."""
        address, cookie = await self.start()
        return await self.finish(self.provider.authorize(address), cookie)


def refused_because(answer) -> str:
    """Return the reason of a refusal, which sets no session."""
    assert answer.status == 302
    assert "session=gwl_" not in str(answer.headers)
    return parse_qs(urlsplit(answer.headers["location"]).query)["sign_in_refused"][0]


def session_of(answer) -> dict[str, str]:
    assert answer.status == 302, answer.body
    assert "sign_in_refused" not in answer.headers["location"], answer.headers["location"]
    cookies = answer.headers["set-cookie"]
    assert cookies.startswith("__Host-gw_session=gwl_")
    return {"cookie": cookies.partition(";")[0]}


@asynccontextmanager
async def open_place(folder, rules: str = RULES, **changes):
    clock = SetClock()
    async with (
        open_fake_openid(clock.now) as provider,
        open_running(folder, configured(provider.issuer, rules, **changes), clock) as running,
    ):
        yield Place(running, provider)


@pytest.fixture
async def place(tmp_path):
    async with open_place(tmp_path) as opened:
        yield opened


async def test_a_person_signs_in_and_out(place):
    address, cookie = await place.start("/logs?status=error")
    answer = await place.finish(place.provider.authorize(address), cookie)
    assert answer.headers["location"] == "/logs?status=error"
    for part in ("HttpOnly", "SameSite=Strict", "Secure", "Max-Age=43200", "Path=/;"):
        assert part in answer.headers["set-cookie"]
    session = session_of(answer)
    assert (await place.running.get("/v1/costs", **session)).status == 200
    assert (await place.running.ask("POST", "/v1/projects", {"project_id": "new"}, **session)).status == 403
    state = (await place.running.get("/api/session", **session)).json
    assert (state["principal"], state["name"], state["role"]) == ("person", EMAIL, "viewer")
    assert (state["projects"], state["capture"]) == (None, False)
    answer = await place.running.ask("POST", "/api/logout", **session)
    assert answer.json["redirect"].startswith(f"{place.provider.issuer}/session/end?client_id=gw&")
    assert (await place.running.get("/v1/costs", **session)).status == 401
    log = (await place.running.get("/v1/audit-log?entity_type=login", **ADMIN_HEADER)).json
    assert [(entry["action"], entry["actor"]) for entry in log] == [("delete", EMAIL), ("create", EMAIL)]


@pytest.mark.parametrize(
    ("claims", "role", "projects", "capture"),
    [
        ({"groups": ["staff", "operators"]}, "operator", ["shop"], False),
        ({"email": "boss@shop.example"}, "admin", None, True),
        ({"email": "boss@shop.example", "email_verified": False}, "viewer", None, False),
        ({"email": "boss@shop.example", "email_verified": None}, "viewer", None, False),
        ({"groups": "staff"}, "viewer", None, False),
    ],
)  # fmt: skip
async def test_claims_decide_the_role(place, claims, role, projects, capture):
    place.provider.claims = claims
    state = (await place.running.get("/api/session", **session_of(await place.sign_in()))).json
    assert (state["role"], state["projects"], state["capture"]) == (role, projects, capture)


async def test_claims_of_the_userinfo_count_where_the_id_token_has_none(place):
    place.provider.claims = {"groups": None}
    place.provider.userinfo = {"groups": ["operators"]}
    state = (await place.running.get("/api/session", **session_of(await place.sign_in()))).json
    assert state["role"] == "operator"
    place.provider.userinfo = {"groups": ["operators"], "sub": "somebody else"}
    assert refused_because(await place.sign_in()) == "subject"


async def test_who_has_no_role_is_refused(place):
    place.provider.claims = {"groups": ["visitors"]}
    assert refused_because(await place.sign_in()) == "no_role"


def other_key(provider):
    return lambda claims: provider.signed(claims, key=RSAKey.generate_key(2048, {"kid": "first"}))


def unsigned(_provider):
    def token(claims):
        parts = ({"alg": "none"}, claims)
        return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts) + "."

    return token


def by_client_secret(provider):
    from joserfc import jwt
    from joserfc.jwk import OctKey

    return lambda claims: jwt.encode({"alg": "HS256", "kid": "first"}, claims, OctKey.import_key(provider.client_secret))


def by_public_key(provider):
    """The public key as a shared secret: it is known to everybody."""
    from joserfc import jwt
    from joserfc.jwk import OctKey

    secret = provider.keys[0].as_pem(private=False)
    return lambda claims: jwt.encode({"alg": "HS256", "kid": "first"}, claims, OctKey.import_key(base64.b64encode(secret)))


def changed_after_signing(provider):
    def token(claims):
        head, _, signature = provider.signed(claims).split(".")
        body = base64.urlsafe_b64encode(json.dumps({**claims, "groups": ["operators"]}).encode()).rstrip(b"=").decode()
        return f"{head}.{body}.{signature}"

    return token


@pytest.mark.parametrize("forge", [other_key, unsigned, by_client_secret, by_public_key, changed_after_signing])
async def test_a_token_that_the_provider_did_not_sign_is_refused(place, forge):
    place.provider.token = forge(place.provider)
    assert refused_because(await place.sign_in()) == "signature"


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"nonce": "of another sign-in"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"iss": "https://evil.example"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"aud": "another client"}, "audience"),
        ({"aud": None}, "audience"),
        ({"aud": ["gw", "another client"]}, "audience"),
        ({"aud": ["gw", "another client"], "azp": "another client"}, "audience"),
        ({"azp": "another client"}, "audience"),
        ({"exp": None}, "token"),
        ({"exp": 1}, "expired"),
        ({"exp": "9999999999"}, "token"),
        ({"iat": None}, "token"),
        ({"iat": 1}, "expired"),
        ({"iat": 9_999_999_999}, "expired"),
        ({"nbf": 9_999_999_999}, "expired"),
        ({"sub": None}, "token"),
        ({"sub": ""}, "token"),
    ],
)  # fmt: skip
async def test_a_token_for_something_else_is_refused(place, claims, reason):
    place.provider.claims = claims
    assert refused_because(await place.sign_in()) == reason


async def test_a_token_for_several_clients_counts_if_it_was_made_for_this_one(place):
    place.provider.claims = {"aud": ["gw", "another client"], "azp": "gw"}
    session_of(await place.sign_in())


async def test_an_answer_counts_once(place):
    address, cookie = await place.start()
    query = place.provider.authorize(address)
    session_of(await place.finish(query, cookie))
    exchanges = place.provider.calls.count("/token")
    assert refused_because(await place.finish(query, cookie)) == "replay"
    assert place.provider.calls.count("/token") == exchanges


async def test_a_code_counts_once_for_the_provider(place):
    first_address, _ = await place.start()
    used = place.provider.authorize(first_address)
    place.provider.codes.clear()  # it was exchanged
    address, cookie = await place.start()
    query = {**place.provider.authorize(address), "code": used["code"]}
    place.provider.codes.pop(used["code"], None)
    assert refused_because(await place.finish(query, cookie)) == "provider"


async def test_an_answer_of_another_provider_is_refused_before_its_code_goes_anywhere(place):
    for issuer in ("https://evil.example", None):
        address, cookie = await place.start()
        query = place.provider.authorize(address)
        query.pop("iss")
        assert refused_because(await place.finish(query | ({"iss": issuer} if issuer else {}), cookie)) == "mix_up"
    assert "/token" not in place.provider.calls


async def test_an_answer_counts_in_the_browser_that_began(place):
    address, cookie = await place.start()
    _, other = await place.start()
    query = place.provider.authorize(address)
    assert refused_because(await place.finish(query, {})) == "state"
    assert refused_because(await place.finish(query, other)) == "state"
    assert refused_because(await place.finish(query, {"cookie": cookie["cookie"][:-4] + "AAAA"})) == "state"
    assert refused_because(await place.finish(query | {"state": ""}, cookie)) == "state"
    assert "/token" not in place.provider.calls
    session_of(await place.finish(query, cookie))


async def test_a_sign_in_that_takes_too_long_is_refused(place):
    address, cookie = await place.start()
    query = place.provider.authorize(address)
    place.running.clock.at += 601
    assert refused_because(await place.finish(query, cookie)) == "expired"


async def test_what_the_provider_refuses_is_refused(place):
    address, cookie = await place.start()
    query = place.provider.authorize(address)
    query.pop("code")
    assert refused_because(await place.finish(query | {"error": "access_denied"}, cookie)) == "denied"


async def test_a_code_without_its_verifier_is_worthless(place):
    """PKCE: a stolen code belongs to another sign-in."""
    address, _ = await place.start()
    stolen = place.provider.authorize(address)["code"]
    address, cookie = await place.start()
    query = place.provider.authorize(address) | {"code": stolen}
    assert refused_because(await place.finish(query, cookie)) == "provider"


@pytest.mark.parametrize("page", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)", "%2F%2Fevil.example"])
async def test_no_page_elsewhere_is_shown_afterwards(place, page):
    address, cookie = await place.start(page)
    assert (await place.finish(place.provider.authorize(address), cookie)).headers["location"] == "/"


async def test_a_session_ends_idle_and_in_the_end(tmp_path):
    async with open_place(tmp_path, idle_minutes=30, session_hours=2) as place:
        session, clock = session_of(await place.sign_in()), place.running.clock

        async def status():
            return (await place.running.get("/v1/costs", **session)).status

        for _ in range(4):
            clock.at += 29 * 60
            assert await status() == 200
        clock.at += 5 * 60  # two hours and a minute since the beginning
        assert await status() == 401
        session = session_of(await place.sign_in())
        clock.at += 31 * 60
        assert await status() == 401


async def test_sessions_are_listed_and_ended(place):
    sessions = [session_of(await place.sign_in()) for _ in range(2)]
    listed = (await place.running.get("/v1/logins", **ADMIN_HEADER)).json["logins"]
    assert [entry["name"] for entry in listed] == [EMAIL, EMAIL]
    assert (await place.running.get("/v1/logins", **sessions[0])).status == 403
    for login in listed[:1]:
        address = f"/v1/logins/{login['login_id']}"
        assert (await place.running.ask("DELETE", address, **ADMIN_HEADER)).json == {
            "would_delete": {"login_id": login["login_id"], "name": EMAIL}
        }
        assert (await place.running.ask("DELETE", f"{address}?confirm=true", **ADMIN_HEADER)).json == {"deleted": login["login_id"]}
    statuses = sorted([(await place.running.get("/v1/costs", **session)).status for session in sessions])
    assert statuses == [200, 401]


async def test_a_blocked_person_is_out(place):
    session = session_of(await place.sign_in())
    (person,) = (await place.running.get("/v1/people", **ADMIN_HEADER)).json["people"]
    assert (person["name"], person["role"], person["sessions"]) == (EMAIL, "viewer", 1)
    address = f"/v1/people/{person['person_id']}"
    assert (await place.running.ask("PATCH", address, {"blocked": True}, **ADMIN_HEADER)).status == 200
    assert (await place.running.get("/v1/costs", **session)).status == 401
    assert refused_because(await place.sign_in()) == "blocked"
    await place.running.ask("PATCH", address, {"blocked": False}, **ADMIN_HEADER)
    assert (await place.running.get("/v1/costs", **session)).status == 401, "its session was ended"
    session_of(await place.sign_in())


async def test_the_provider_ends_sessions(place):
    session = session_of(await place.sign_in())
    form = {"content_type": "application/x-www-form-urlencoded"}

    async def log_out(token):
        return await place.running.ask("POST", "/api/oidc/backchannel-logout", f"logout_token={token}".encode(), **form)

    for changes in ({"sub": "somebody else"}, {"sid": "another session"}):
        answer = await log_out(place.provider.logout_token(jti=str(changes), **changes))
        assert (answer.status, answer.json) == (200, {"ended": 0})
    for changes in (
        {"events": {}}, {"nonce": "x"}, {"aud": "another client"}, {"iss": "https://evil.example"}, {"iat": 1}, {"exp": 1},
        {"jti": None}, {"sub": None},
    ):  # fmt: skip
        assert (await log_out(place.provider.logout_token(**changes))).status == 400, changes
    assert (await log_out(place.provider.id_token("x"))).status == 400
    assert (await log_out("")).status == 400
    assert (await place.running.get("/v1/costs", **session)).status == 200
    token = place.provider.logout_token(jti="once", sid="provider-session-1")
    assert (await log_out(token)).json == {"ended": 1}
    assert (await place.running.get("/v1/costs", **session)).status == 401
    assert (await log_out(token)).status == 400, "a logout token counts once"


async def test_a_session_is_not_a_credential_elsewhere(place):
    value = session_of(await place.sign_in())["cookie"].partition("=")[2]
    assert (await place.running.get("/v1/costs", authorization=f"Bearer {value}")).status == 401


async def test_the_cookie_is_stored_nowhere(place, tmp_path):
    value = session_of(await place.sign_in())["cookie"].partition("=")[2]
    await place.running.gateway.store.flush()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if value.encode() in path.read_bytes()] == []


async def test_a_session_of_the_dashboard_calls_models_as_its_role_allows(place):
    chat = {"model": "sim/echo", "messages": [{"role": "user", "content": "hi"}]}
    own = {"x-gw-dashboard": "1", "origin": place.running.url}
    viewer = session_of(await place.sign_in())
    assert (await place.running.ask("POST", "/v1/chat/completions", chat, **own, **viewer)).status == 403
    place.provider.claims = {"groups": ["operators"]}
    operator = session_of(await place.sign_in())
    answer = await place.running.ask("POST", "/v1/chat/completions", chat, **own, **operator)
    assert answer.status == 200
    assert (await place.running.ask("POST", "/v1/chat/completions", chat, **operator)).status == 401, "without the dashboard's header"


async def test_sessions_go_on_after_a_restart(tmp_path):
    clock = SetClock()
    async with open_fake_openid(clock.now) as provider:
        async with open_running(tmp_path, configured(provider.issuer), clock) as running:
            session = session_of(await Place(running, provider).sign_in())
        async with open_running(tmp_path, configured(provider.issuer), clock) as running:
            assert (await running.get("/v1/costs", **session)).status == 200
            await running.ask("POST", "/api/logout", **session)
        async with open_running(tmp_path, configured(provider.issuer), clock) as running:
            assert (await running.get("/v1/costs", **session)).status == 401


async def test_other_rules_of_roles_hold_at_once(tmp_path):
    clock = SetClock()
    async with open_fake_openid(clock.now) as provider:
        async with open_running(tmp_path, configured(provider.issuer), clock) as running:
            session = session_of(await Place(running, provider).sign_in())
        fewer = "\n      - {claim: groups, value: operators, role: operator}\n"
        async with open_running(tmp_path, configured(provider.issuer, fewer), clock) as running:
            assert (await running.get("/v1/costs", **session)).status == 401


async def test_a_provider_that_is_not_the_configured_one_is_not_used(place):
    place.provider.metadata = {"issuer": "https://evil.example"}
    answer = await place.running.get("/api/oidc/start")
    assert refused_because(answer) == "issuer"


@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"])
async def test_an_address_without_tls_is_not_used(place, name):
    place.provider.metadata = {name: "http://evil.example/x"}
    assert refused_because(await place.running.get("/api/oidc/start")) == "provider"


async def test_a_provider_that_is_away(tmp_path):
    async with open_running(tmp_path, configured("http://127.0.0.1:9")) as running:
        assert refused_because(await running.get("/api/oidc/start")) == "provider"
        assert (await running.get("/v1/costs", **ADMIN_HEADER)).status == 200


async def test_a_service_token_opens_the_dashboard_with_its_role(place):
    body = {"name": "wall", "role": "viewer", "projects": ["shop"]}
    made = (await place.running.ask("POST", "/v1/tokens", body, **ADMIN_HEADER)).json
    answer = await place.running.ask("POST", "/api/login", {"token": made["token"]})
    session = {"cookie": answer.headers["set-cookie"].partition(";")[0]}
    state = (await place.running.get("/api/session", **session)).json
    assert (state["principal"], state["role"], state["projects"]) == ("person", "viewer", ["shop"])
    assert state["name"] == f"wall ({made['token_id']})"
    assert (await place.running.get("/v1/providers", **session)).status == 403
    await place.running.ask("DELETE", f"/v1/tokens/{made['token_id']}?confirm=true", **ADMIN_HEADER)
    assert (await place.running.get("/v1/costs", **session)).status == 401
