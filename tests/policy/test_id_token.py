"""Tokens of an OpenID provider, at the borders of what is accepted, and tokens that are no such thing."""

from __future__ import annotations

import base64
import json

import pytest
from joserfc import jws, jwt
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey

from gw.errors import SignInRefused
from gw.policy.id_token import (
    LEEWAY_S,
    LOGOUT_EVENT,
    MOST_CHARACTERS,
    OLDEST_S,
    Expected,
    UnknownSigningKey,
    check_id_token,
    check_logout_token,
    claim_values,
)

NOW = 1_800_000_000
KEY = RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})
KEYS = KeySet([KEY])
HEADER = {"alg": "RS256", "kid": "first"}
CLAIMS = {"iss": "https://login.example", "aud": "gw", "sub": "ana", "exp": NOW + 300, "iat": NOW, "nonce": "n"}
LOGOUT = {"iss": "https://login.example", "aud": "gw", "sub": "ana", "iat": NOW, "jti": "1", "events": {LOGOUT_EVENT: {}}}


def expected(*algorithms: str) -> Expected:
    return Expected(issuer="https://login.example", client_id="gw", now=NOW, algorithms=algorithms)


def signed(content: object, header: dict[str, object] = HEADER, key: object = KEY) -> str:
    """Return a token with any content, also one that is no set of claims."""
    return jws.serialize_compact(header, content if isinstance(content, bytes) else json.dumps(content).encode(), key)


def reason(token: str, *algorithms: str, keys: KeySet = KEYS) -> str:
    """Return why an ID token is refused, "" for one that is accepted."""
    try:
        check_id_token(token, keys, expected(*algorithms), nonce="n")
    except SignInRefused as refusal:
        return refusal.reason
    return ""


def logout_reason(**changes: object) -> str:
    claims = {name: value for name, value in (LOGOUT | changes).items() if value is not None}
    try:
        check_logout_token(signed(claims), KEYS, expected())
    except SignInRefused as refusal:
        return refusal.reason
    return ""


@pytest.mark.parametrize(
    ("claim", "accepted", "refused"),
    [
        ("exp", NOW - LEEWAY_S + 1, NOW - LEEWAY_S),
        ("iat", NOW + LEEWAY_S, NOW + LEEWAY_S + 1),
        ("iat", NOW - OLDEST_S, NOW - OLDEST_S - 1),
        ("nbf", NOW + LEEWAY_S, NOW + LEEWAY_S + 1),
    ],
)
def test_clocks_may_differ_by_a_minute(claim, accepted, refused):
    assert reason(signed(CLAIMS | {claim: accepted})) == ""
    assert reason(signed(CLAIMS | {claim: refused})) == "expired"


@pytest.mark.parametrize("value", [10**400, float("inf"), float("nan"), -1, True, "1800000000", [], None])
def test_a_time_that_is_none_is_refused(value):
    assert reason(signed(CLAIMS | {"exp": value})) == "token"


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [
        ("RS256", KEY), ("RS384", KEY), ("RS512", KEY), ("PS256", KEY), ("PS384", KEY), ("PS512", KEY),
        ("ES256", ECKey.generate_key("P-256", {"kid": "first"})), ("ES384", ECKey.generate_key("P-384", {"kid": "first"})),
        ("ES512", ECKey.generate_key("P-521", {"kid": "first"})), ("Ed25519", OKPKey.generate_key("Ed25519", {"kid": "first"})),
    ],
)  # fmt: skip
def test_signatures_with_a_public_key_are_accepted(algorithm, key):
    token = jwt.encode({"alg": algorithm, "kid": "first"}, CLAIMS, key, algorithms=[algorithm])
    assert reason(token, keys=KeySet([key])) == ""
    assert reason(token, algorithm, keys=KeySet([key])) == ""
    other = "ES256" if algorithm != "ES256" else "RS256"
    assert reason(token, other, keys=KeySet([key])) == "signature", "the provider does not sign with it"


@pytest.mark.parametrize("listed", ["HS256", "none", "unknown"])
@pytest.mark.parametrize("alg", ["RS256", "HS256", "none"])
def test_a_provider_that_lists_no_public_key_signature_is_refused(listed, alg):
    token = signed(CLAIMS) if alg == "RS256" else f"{_part({'alg': alg})}.{_part(CLAIMS)}."
    assert reason(token, listed) == "signature"


def _part(value: object) -> str:
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "header",
    [
        [], {}, "x", 5, None, {"alg": []}, {"alg": None}, {"alg": "none"}, {"alg": "RS256", "kid": {}}, {"alg": "RS256", "kid": 5},
        {"alg": "ES256", "kid": "first"}, {"alg": "HS256", "kid": "first"}, {"alg": "dir", "enc": "A128GCM"},
        {**HEADER, "crit": ["b64"], "b64": False}, {**HEADER, "crit": ["exp"]}, {**HEADER, "zip": "DEF"}, {**HEADER, "jwk": {"kty": "oct"}},
        b"[" * 20_000, b'{"alg":' + b"[" * 20_000, b'{"alg":' + b"9" * 20_000 + b"}", b"\xff\xfe",
    ],
)  # fmt: skip
def test_a_strange_head_is_refused(header):
    assert reason(f"{_part(header)}.{_part(CLAIMS)}.{_part(b'signature')}") == "signature"


@pytest.mark.parametrize("token", ["", ".", "..", "...", "a.b.c.d.e", "ü.ü.ü", "\ud800.a.b", "a b.c.d"])
def test_what_is_no_token_is_refused(token):
    assert reason(token) == "signature"


def test_a_token_that_is_too_long_is_not_decoded():
    assert reason("a" * (MOST_CHARACTERS + 1)) == "token"


@pytest.mark.parametrize("content", [b"[" * 20_000, b"[]", b"\xff", b"", b"null", b'{"iss":'])
def test_a_signed_content_that_is_no_claims_is_refused(content):
    assert reason(signed(content)) == "signature"


@pytest.mark.parametrize("name", ["nonce", "sub", "name", "groups"])
def test_half_of_a_surrogate_pair_is_refused(name):
    """It can be written in JSON, but neither encoded nor stored."""
    assert reason(signed(CLAIMS | {name: "\ud800"})) == "signature"


def test_a_key_that_is_not_published_is_told_apart():
    with pytest.raises(UnknownSigningKey):
        check_id_token(signed(CLAIMS, {"alg": "RS256", "kid": "second"}), KEYS, expected(), nonce="n")


def test_the_key_must_be_named_where_there_are_several():
    several = KeySet([KEY, RSAKey.generate_key(2048, {"kid": "second"})])
    assert reason(signed(CLAIMS, {"alg": "RS256"})) == ""
    assert reason(signed(CLAIMS, {"alg": "RS256"}), keys=several) == "signature"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""), ({"exp": NOW + 120}, ""), ({"iat": NOW - OLDEST_S}, ""), ({"iat": NOW - OLDEST_S - 1}, "expired"),
        ({"iat": NOW + LEEWAY_S}, ""), ({"iat": NOW + LEEWAY_S + 1}, "expired"), ({"exp": NOW - LEEWAY_S}, "expired"),
        ({"sub": None, "sid": "s"}, ""), ({"sub": None}, "token"), ({"sub": 5}, "token"), ({"jti": None}, "token"),
        ({"nonce": "n"}, "token"), ({"events": {}}, "token"), ({"events": {LOGOUT_EVENT: None}}, "token"), ({"aud": "other"}, "audience"),
    ],
)  # fmt: skip
def test_which_logout_tokens_count(changes, why):
    assert logout_reason(**changes) == why


def test_one_kind_of_token_is_not_taken_for_the_other():
    assert reason(signed(LOGOUT | {"exp": NOW + 300})) == "nonce"
    with pytest.raises(SignInRefused):
        check_logout_token(signed(CLAIMS), KEYS, expected())


@pytest.mark.parametrize(
    ("claims", "name", "values"),
    [
        ({"groups": ["a", 1, "", None, {}]}, "groups", ("a", "1")),
        ({"admin": True}, "admin", ("true",)),
        ({"realm_access": {"roles": ["a"]}}, "realm_access.roles", ("a",)),
        ({"https://ns.example/roles": "a", "https://ns": {"example/roles": "b"}}, "https://ns.example/roles", ("a",)),
        ({"email": "a@b.c"}, "email", ()),
        ({"email": "a@b.c", "email_verified": "true"}, "email", ("a@b.c",)),
        ({}, "groups", ()),
        ({"groups": "x"}, "groups.x", ()),
    ],
)
def test_values_of_a_claim(claims, name, values):
    assert claim_values(claims, name) == values
