"""Tokens of an OpenID provider: which are accepted, and why others are not.

Checks follow OpenID Connect Core 1.0, section 3.1.3.7 (ID tokens), and Back-Channel Logout 1.0, section 2.6 (logout tokens). The
signature is checked with joserfc; what a claim must be is decided here, by the caller's clock.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from gw.errors import SignInRefused

if TYPE_CHECKING:  # takes a twentieth of a second to import, for what most gateways never do
    from joserfc.jwk import KeySet

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
"""Signatures with a public key. With a shared secret (HS256), whoever checks tokens could make them; `none` is no signature."""
LEEWAY_S = 60.0  # between the clocks of the provider and of this gateway
OLDEST_S = 600.0  # an ID token is made when the code is exchanged, so an older one was kept for later
MOST_CHARACTERS = 32_000
_MOST_VALUES, _VALUE_CHARACTERS = 500, 255  # of a claim
LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"


class UnknownSigningKey(SignInRefused):
    """The token names a key that the key set does not have: the provider may have changed its keys."""


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that a token must agree with. `algorithms`: those that the provider says it uses, empty for all that are accepted."""

    issuer: str
    client_id: str
    now: float
    algorithms: Collection[str] = ()


def check_id_token(token: str, keys: KeySet, expected: Expected, *, nonce: str) -> Mapping[str, Any]:
    """Return the claims of an ID token that was made for this gateway and this sign-in. Raises SignInRefused."""
    claims = _verified(token, keys, expected)
    _check_audience(claims, expected.client_id)
    expires_at, issued_at = _seconds(claims, "exp"), _seconds(claims, "iat")
    if expires_at <= expected.now - LEEWAY_S:
        raise SignInRefused(what="the ID token has expired", reason="expired")
    if issued_at > expected.now + LEEWAY_S:
        raise SignInRefused(what="the ID token was issued in the future: compare the clocks", reason="expired")
    if issued_at < expected.now - OLDEST_S:
        raise SignInRefused(what="the ID token was issued too long ago", reason="expired")
    _check_not_before(claims, expected.now)
    presented = claims.get("nonce")
    if not isinstance(presented, str) or not hmac.compare_digest(presented.encode(), nonce.encode()):
        raise SignInRefused(what="the ID token has the nonce of another sign-in", reason="nonce")
    _text(claims, "sub")
    return claims


def check_logout_token(token: str, keys: KeySet, expected: Expected) -> Mapping[str, Any]:
    """Return the claims of a logout token: `sub` or `sid` says whose sessions end, `jti` is its own id. Raises SignInRefused."""
    claims = _verified(token, keys, expected)
    _check_audience(claims, expected.client_id, authorized_party=False)
    issued_at = _seconds(claims, "iat")
    expires_at = _seconds(claims, "exp") if "exp" in claims else issued_at + OLDEST_S
    if not expected.now - LEEWAY_S < expires_at or not expected.now - OLDEST_S <= issued_at <= expected.now + LEEWAY_S:
        raise SignInRefused(what="the logout token has expired, or is from the future", reason="expired")
    events = claims.get("events")
    if not isinstance(events, dict) or not isinstance(events.get(LOGOUT_EVENT), dict):
        raise SignInRefused(what="the token is not a logout token", reason="token")
    if "nonce" in claims:
        raise SignInRefused(what="a logout token has no nonce: this is an ID token", reason="token")
    if "sub" not in claims and "sid" not in claims:
        raise SignInRefused(what="the logout token names neither a person nor a session", reason="token")
    for name in ("sub", "sid"):
        if name in claims:
            _text(claims, name)
    _text(claims, "jti")
    return claims


def claim_values(claims: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return the values of a claim as texts: one, those of a list, or none. `a.b` is the member `b` of `a`.

    A mail address counts only if the provider has verified it: anybody can claim to have any.
    """
    value: Any = claims
    for part in [name] if name in claims else name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if name == "email" and claims.get("email_verified") not in (True, "true"):
        return ()
    values = value if isinstance(value, list) else [value]
    texts = [str(each).lower() if isinstance(each, bool) else str(each) for each in values if isinstance(each, str | int) and each != ""]
    return tuple(text[:_VALUE_CHARACTERS] for text in texts[:_MOST_VALUES])


def _verified(token: str, keys: KeySet, expected: Expected) -> Mapping[str, Any]:
    """Return the claims of a token with a good signature of the issuer."""
    from joserfc import jwt
    from joserfc.errors import InvalidKeyIdError, JoseError

    algorithms = [name for name in ALGORITHMS if not expected.algorithms or name in expected.algorithms]
    if not algorithms:  # joserfc would take its own list for an empty one, and that has signatures with a shared secret
        raise SignInRefused(what="the provider has no algorithm of signatures that is accepted here", reason="signature")
    if len(token) > MOST_CHARACTERS:
        raise SignInRefused(what="the token is too long", reason="token")
    try:
        claims: Mapping[str, Any] = jwt.decode(token, keys, algorithms=algorithms).claims
        json.dumps(claims, ensure_ascii=False).encode()  # refuses half of a surrogate pair, which no database stores
    except InvalidKeyIdError:
        raise UnknownSigningKey(what="the token was signed with a key that the provider does not publish", reason="signature") from None
    except (JoseError, ValueError, TypeError, KeyError, RecursionError):
        raise SignInRefused(what="the token has no valid signature of the provider", reason="signature") from None
    if claims.get("iss") != expected.issuer:
        raise SignInRefused(what="the token is of another issuer", reason="issuer")
    return claims


def _check_audience(claims: Mapping[str, Any], client_id: str, *, authorized_party: bool = True) -> None:
    audience = claims.get("aud")
    audiences = [audience] if isinstance(audience, str) else audience if isinstance(audience, list) else []
    if client_id not in audiences:
        raise SignInRefused(what="the token was made for another client", reason="audience")
    party = claims.get("azp")
    if authorized_party and (party is not None or len(audiences) > 1) and party != client_id:
        raise SignInRefused(what="the token was made for another client, which may pass it on", reason="audience")


def _check_not_before(claims: Mapping[str, Any], now: float) -> None:
    if "nbf" in claims and _seconds(claims, "nbf") > now + LEEWAY_S:
        raise SignInRefused(what="the ID token is not valid yet", reason="expired")


def _seconds(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise SignInRefused(what=f"the token has no valid {name}", reason="token")
    return float(value)


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= 255:
        raise SignInRefused(what=f"the token has no valid {name}", reason="token")
    return value
