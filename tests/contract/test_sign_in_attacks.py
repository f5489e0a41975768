"""Attacks on signing in: forged answers of the provider, borrowed cookies, floods, and what is left after a failure.

What attackers do is taken from RFC 9700 (security of OAuth 2.0), RFC 9207 (mix-up), RFC 7517 (keys), RFC 6265bis (cookies) and OpenID
Connect Core 1.0 and Back-Channel Logout 1.0.
"""

from __future__ import annotations

from itertools import product
from urllib.parse import parse_qs, quote, urlsplit

import apsw
import pytest
import structlog
from joserfc.jwk import ECKey, RSAKey
from structlog.testing import capture_logs

from gw.web.sign_ins import MAX_USED, SignIns
from tests.contract.test_access import ADMIN
from tests.contract.test_sign_in import ADMIN_HEADER, Place, open_place, refused_because, session_of
from tests.fakes.fake_openid import EMAIL, SUBJECT, callback_target

FORM = {"content_type": "application/x-www-form-urlencoded"}


@pytest.fixture
async def place(tmp_path):
    async with open_place(tmp_path) as opened:
        yield opened


async def log_out(place: Place, token: str):
    return await place.running.ask("POST", "/api/oidc/backchannel-logout", f"logout_token={token}".encode(), **FORM)


async def costs(place: Place, **headers: str) -> int:
    return (await place.running.get("/v1/costs", **headers)).status


async def test_further_fields_of_an_answer_are_ignored(place):
    """Keycloak adds `session_state`, Google `scope`, `authuser` and `prompt` (RFC 6749, section 4.1.2)."""
    address, cookie = await place.start()
    further = {"session_state": "x", "scope": "openid email", "authuser": "0", "prompt": "none"}
    session_of(await place.finish(place.provider.authorize(address) | further, cookie))


async def test_a_repeated_field_is_refused(place):
    address, cookie = await place.start()
    query = place.provider.authorize(address)
    for name in ("code", "state", "iss"):
        answer = await place.running.get(f"{callback_target(query)}&{name}={query[name]}", **cookie)
        assert refused_because(answer) == "state"
    assert "/token" not in place.provider.calls


async def test_no_answer_and_no_cookie_fails_the_gateway(place):
    queries = ("state=%ff", "state=%ed%a0%80&code=x", "state=%00&error=%0d%0aset-cookie:x", "%ff=%ff", "&&&=", "")
    for query, value in product(queries, (None, "x", "%00", "A" * 4_000, "é", '"', "gAAAAA")):
        sent = {} if value is None else {"cookie": f"__Host-gw_sign_in={value}; __Host-gw_session={value}; gw_session={value}"}
        answer = await place.running.get(f"/api/oidc/callback?{query}", **sent)
        assert refused_because(answer) == "state"
        assert "\n" not in answer.headers["location"]


async def test_cookies_have_names_that_neighbours_cannot_set(place):
    """Another host below the same domain can set cookies for this one, but none whose name begins with `__Host-`."""
    answer = await place.running.get("/api/oidc/start")
    name, *flags = answer.headers["set-cookie"].split("; ")
    assert name.startswith("__Host-gw_sign_in=")
    assert set(flags) == {"Path=/", "Max-Age=600", "HttpOnly", "SameSite=Lax", "Secure"}
    query = place.provider.authorize(answer.headers["location"])
    planted = {"cookie": name.removeprefix("__Host-")}
    assert refused_because(await place.finish(query, planted)) == "state", "this name does not show who has set it"
    finished = await place.finish(query, {"cookie": name})
    assert finished.headers["set-cookie"].startswith("__Host-gw_session=gwl_")

    own = session_of(finished)
    place.provider.claims = {"sub": "attacker", "email": "mallory@shop.example"}
    fixed = session_of(await place.sign_in())["cookie"].removeprefix("__Host-")
    for both in (f"{own['cookie']}; {fixed}", f"{fixed}; {own['cookie']}"):
        state = (await place.running.get("/api/session", cookie=both)).json
        assert state["name"] == EMAIL, "the planted session does not come first"


async def test_the_cookie_of_the_admin_token_is_for_tls_where_the_browser_has_tls(place):
    """Also behind a proxy that ends TLS; and a session of a gateway that is called without TLS works there."""
    host = urlsplit(place.running.url).netloc
    for scheme, secure in (("https", True), ("http", False)):
        answer = await place.running.ask("POST", "/api/login", {"token": ADMIN}, origin=f"{scheme}://{host}")
        assert answer.status == 200
        cookie = answer.headers["set-cookie"]
        assert (cookie.startswith("__Host-gw_session="), cookie.endswith("; Secure")) == (secure, secure)
        assert await costs(place, cookie=cookie.partition(";")[0]) == 200


async def test_a_new_sign_in_has_a_new_session(place):
    """Fixation: a session value that was known before is never raised to more rights."""
    known = "gwl_" + "A" * 43
    address, cookie = await place.start()
    answer = await place.finish(place.provider.authorize(address), {"cookie": f"{cookie['cookie']}; __Host-gw_session={known}"})
    assert session_of(answer)["cookie"] != f"__Host-gw_session={known}"
    assert await costs(place, cookie=f"__Host-gw_session={known}") == 401


async def test_strange_pages_are_not_shown_afterwards(place):
    pages = ("/\t/evil.example", "/ü", "/" + "a" * 600, "", "logs", "///evil.example", "/\\/evil.example", "/a\\b", "/\r\nset-cookie: x=1")
    for page in pages:
        address, cookie = await place.start(quote(page, safe=""))
        assert (await place.finish(place.provider.authorize(address), cookie)).headers["location"] == "/", page


async def test_no_address_of_the_provider_leads_astray(place):
    names = ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint", "end_session_endpoint")
    addresses = (
        "http://evil.example/x", "javascript:alert(1)", "https://a.example/\r\nset-cookie: x=1", "https://[", "https://", "//a", "é",
    )  # fmt: skip
    for name, address in product(names, addresses):
        place.provider.metadata = {name: address}
        assert refused_because(await place.running.get("/api/oidc/start")) == "provider", (name, address)
    place.provider.metadata = {}
    await place.start()


async def test_a_broken_discovery_document_is_refused(place):
    for metadata in ({"issuer": 5}, {"jwks_uri": None}, {"id_token_signing_alg_values_supported": "RS256"}):
        place.provider.metadata = metadata
        assert refused_because(await place.running.get("/api/oidc/start")) == "provider", metadata


STRANGE_KEYS = [
    {"kty": "AKP", "alg": "ML-DSA-44", "kid": "x", "pub": "AAAA"}, {"kty": "EC", "crv": "P-999", "x": "a", "y": "b", "kid": "x"},
    {"kty": "RSA", "kid": "x"}, {"kid": "x"}, {"kty": []}, {"kty": "OKP", "crv": "X25519", "x": "a", "kid": "x"},
    {"kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA", "kid": "x"}, {"kty": "RSA", "n": 5, "e": [], "kid": "x"},
    {"kty": "oct", "k": "AAAA", "kid": "first"},
]  # fmt: skip


async def test_keys_of_an_unknown_kind_do_not_keep_people_out(place):
    """RFC 7517, section 5: a set may have keys that a reader does not know, and those are ignored."""
    place.provider.key_set = {"keys": [*STRANGE_KEYS, place.provider.keys[0].as_dict(private=False)]}
    session_of(await place.sign_in())


async def test_a_set_without_a_key_is_refused(place):
    for key_set in ({"keys": STRANGE_KEYS}, {"keys": []}, {"keys": {}}, {"keys": [5]}, {}, [], {"keys": [{}] * 101}):
        place.provider.key_set = key_set
        assert refused_because(await place.sign_in()) == "provider", key_set


async def test_a_key_that_is_too_short_is_not_used(place):
    """RFC 7518, section 3.3."""
    with pytest.warns(match="2048"):
        short = RSAKey.generate_key(1024, {"kid": "first", "use": "sig"})
    key_set = {"keys": [short.as_dict(private=False), ECKey.generate_key("P-256", {"kid": "other"}).as_dict(private=False)]}
    place.provider.keys, place.provider.key_set = [short], key_set
    assert refused_because(await place.sign_in()) == "signature"


async def test_an_access_token_of_an_unknown_type_is_not_used(place):
    """RFC 6749, section 7.1."""
    place.provider.claims, place.provider.userinfo, place.provider.token_type = {"groups": None}, {"groups": ["staff"]}, "mac"
    assert refused_because(await place.sign_in()) == "no_role"
    assert "/me" not in place.provider.calls


async def test_the_provider_can_send_as_much_as_it_likes(place):
    place.provider.key_set = {"keys": [], "padding": "x" * 300_000}
    assert refused_because(await place.sign_in()) == "provider"
    place.provider.key_set, place.provider.claims = None, {"groups": ["staff", "x" * 40_000]}
    assert refused_because(await place.sign_in()) == "token"


async def test_failed_sign_ins_do_not_use_up_the_memory_for_used_ones(place):
    """A stranger can begin any number of sign-ins, and answer each with a code of their own."""
    address, cookie = await place.start()
    query = place.provider.authorize(address)
    for _ in range(3):
        assert refused_because(await place.finish(query | {"code": "guessed"}, cookie)) == "provider"
    session_of(await place.finish(query, cookie))
    assert refused_because(await place.finish(query, cookie)) == "replay"


def test_a_value_that_is_in_use_cannot_be_used_beside_it():
    sign_ins = SignIns()
    for number in range(MAX_USED + 1):
        with pytest.raises(ZeroDivisionError), sign_ins.once(f"{number}", 600.0, 0.0):
            raise ZeroDivisionError
    with sign_ins.once("x", 600.0, 0.0), pytest.raises(Exception, match="used before"), sign_ins.once("x", 600.0, 0.0):
        pass


async def test_a_logout_that_could_not_be_stored_can_be_sent_again(place):
    session, token = session_of(await place.sign_in()), place.provider.logout_token(jti="once")
    database = apsw.Connection(str(place.running.gateway.settings.cost_tracking.db_path))
    database.execute("create trigger refuse before delete on managed begin select raise(abort, 'refused'); end")
    with capture_logs():
        assert (await log_out(place, token)).status == 500
    database.execute("drop trigger refuse")
    database.close()
    assert await costs(place, **session) == 200
    assert (await log_out(place, token)).json == {"ended": 1}
    assert await costs(place, **session) == 401


async def test_strangers_cannot_log_anybody_out(place):
    session = session_of(await place.sign_in())
    for token in ("a.b.c", "x" * 40_000, "%00", "%ff", "e30.e30.", "[" * 30_000):
        answer = await log_out(place, token)
        assert (answer.status, answer.error["code"]) == (400, "logout_refused"), token[:20]
    assert await costs(place, **session) == 200


async def test_nobody_else_is_named_like_somebody(place, tmp_path):
    """Most claims can be chosen by the people themselves, so the audit log has the id beside such a name."""
    (tmp_path / "names").mkdir()
    async with open_place(tmp_path / "names", name_claim="nickname") as other:
        other.provider.claims = {"nickname": "admin"}
        state = (await other.running.get("/api/session", **session_of(await other.sign_in()))).json
        (person,) = (await other.running.get("/v1/people", **ADMIN_HEADER)).json["people"]
        assert state["name"] == f"admin ({person['person_id']})"
        other.provider.claims = {"nickname": "a\nb\u202e" + "x" * 300}
        state = (await other.running.get("/api/session", **session_of(await other.sign_in()))).json
        assert state["name"] == "ab" + "x" * 198 + f" ({person['person_id']})"
    place.provider.claims = {"email_verified": False}
    state = (await place.running.get("/api/session", **session_of(await place.sign_in()))).json
    assert state["name"].startswith(f"{SUBJECT} (person_")


async def test_no_log_has_a_secret_of_a_sign_in(place):
    """Code, state, nonce, verifier, tokens, the client's secret and cookies; neither where it works nor where it fails."""
    structlog.configure(cache_logger_on_first_use=False)
    with capture_logs() as logs:
        address, cookie = await place.start()
        fields = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        query = place.provider.authorize(address)
        session = session_of(await place.finish(query, cookie))
        await place.finish(query, cookie)
        await log_out(place, place.provider.logout_token(jti="secret-jti-1"))
        place.provider.codes.clear()
        address, second = await place.start()
        failing = place.provider.authorize(address)
        place.provider.codes.clear()
        await place.finish(failing, second)
    secrets = [
        query["code"], query["state"], fields["nonce"], fields["code_challenge"], failing["code"], failing["state"], "access-token",
        place.provider.client_secret, *(each["cookie"].partition("=")[2] for each in (cookie, session, second)), "eyJ",
    ]  # fmt: skip
    assert {entry["event"] for entry in logs} >= {"signed_in", "sign_in_refused"}
    assert [secret for secret in secrets if secret in str(logs)] == []
