"""The OpenID provider with which people sign in: its metadata, its keys, and the exchange of a code for who has signed in.

Metadata and keys are cached, and fetched by one task at a time; a failure counts for all that waited for it. A token with an unknown key
makes the keys be fetched again, at most every REFRESH_S, so a provider can change its keys at any time, and nobody can make this gateway
call it in a loop.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import attrs
import msgspec
import trio

from gw.config.sign_in_settings import Oidc
from gw.errors import ProviderError, SignInRefused
from gw.net.http1 import Headers, Origin, Pool
from gw.policy.id_token import Expected, UnknownSigningKey, check_id_token, check_logout_token, claim_values
from gw.telemetry.clock import Clock
from gw.types.address import is_loopback
from gw.types.base64url import decode_base64url

if TYPE_CHECKING:  # takes a twentieth of a second to import, for what most gateways never do
    from joserfc.jwk import Key, KeySet

T = TypeVar("T")
ANSWER_S: Final = 10.0
CACHED_S: Final = 3_600.0
REFRESH_S: Final = 10.0
MAX_BYTES: Final = 262_144
MAX_KEYS: Final = 100
MAX_CALLS: Final = 50  # calls of the provider at once, so that strangers with half a sign-in cannot make this gateway flood it
_RSA_BITS: Final = 2_048  # RFC 7518, section 3.3: smaller keys must not be used
_FORM: Final = (b"content-type", b"application/x-www-form-urlencoded")
_NAME: Final = "oidc"  # of the provider in the pool's errors


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """Members of the discovery document that are needed (OpenID Connect Discovery 1.0, section 3; RFC 9207 for `iss`)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    end_session_endpoint: str = ""
    id_token_signing_alg_values_supported: Sequence[str] = ()
    token_endpoint_auth_methods_supported: Sequence[str] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


class _TokenAnswer(msgspec.Struct, frozen=True):
    id_token: str
    access_token: str = ""
    token_type: str = ""


@attrs.define(eq=False)
class OpenIdProvider:
    """One provider as the settings name it. Times of the caches are on trio's clock."""

    settings: Oidc
    _pool: Pool
    _clock: Clock
    _metadata: Metadata | None = attrs.field(default=None, init=False)
    _metadata_until: float = attrs.field(default=0.0, init=False)
    _keys: KeySet | None = attrs.field(default=None, init=False)
    _keys_at: float = attrs.field(default=0.0, init=False)
    _lock: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    _failures: int = attrs.field(default=0, init=False)
    _failure: str = attrs.field(default="", init=False)  # the last one
    _calls: int = attrs.field(default=0, init=False)

    async def metadata(self) -> Metadata:
        """Return the discovery document. Raises SignInRefused."""
        if (known := self._cached_metadata()) is not None:
            return known
        async with self._fetching():
            if (known := self._cached_metadata()) is not None:  # another task has fetched it meanwhile
                return known
            address = self.settings.issuer.rstrip("/") + "/.well-known/openid-configuration"
            metadata = _decoded(await self._call(b"GET", address), Metadata, "its discovery document")
            self._check(metadata)
            self._metadata, self._metadata_until = metadata, trio.current_time() + CACHED_S
            return metadata

    def _cached_metadata(self) -> Metadata | None:
        return self._metadata if trio.current_time() < self._metadata_until else None

    @asynccontextmanager
    async def _fetching(self) -> AsyncIterator[None]:
        """Wait until no other task fetches metadata or keys. Raises SignInRefused if one failed meanwhile, without a try of its own."""
        before = self._failures
        async with self._lock:
            if self._failures != before:
                raise SignInRefused(what=self._failure, reason="provider")
            try:
                yield
            except SignInRefused as refusal:
                self._failures, self._failure = self._failures + 1, refusal.what
                raise

    def _check(self, metadata: Metadata) -> None:
        if metadata.issuer != self.settings.issuer:
            raise SignInRefused(what=f"the provider calls itself {metadata.issuer!r}, not as in auth.oidc.issuer", reason="issuer")
        local = is_loopback(urlsplit(self.settings.issuer).hostname or "")
        optional = [address for address in (metadata.userinfo_endpoint, metadata.end_session_endpoint) if address]
        for address in (metadata.authorization_endpoint, metadata.token_endpoint, metadata.jwks_uri, *optional):
            if not _is_address(address, local=local):
                raise SignInRefused(what=f"the provider names an address without TLS, or none: {address[:200]!r}", reason="provider")

    async def authorization_url(self, *, state: str, nonce: str, challenge: str) -> str:
        """Return where a browser is sent to sign in, with PKCE (RFC 7636, S256). Raises SignInRefused."""
        metadata = await self.metadata()
        fields = {
            "response_type": "code", "client_id": self.settings.client_id, "redirect_uri": self.settings.redirect_uri,
            "scope": " ".join(self.settings.scopes), "state": state, "nonce": nonce, "code_challenge": challenge,
            "code_challenge_method": "S256",
        }  # fmt: skip
        return with_query(metadata.authorization_endpoint, fields)

    async def logout_url(self) -> str:
        """Return where a browser is sent to end the session at the provider (RP-Initiated Logout 1.0), "" where there is no such place."""
        try:
            address = (await self.metadata()).end_session_endpoint
        except SignInRefused:
            return ""
        fields = {"client_id": self.settings.client_id, "post_logout_redirect_uri": f"{self.settings.public_url}/"}
        return with_query(address, fields) if address else ""

    async def check_issuer(self, presented: str | None) -> None:
        """Refuse an answer of another provider, before its code is sent anywhere (RFC 9207, mix-up attack). Raises SignInRefused."""
        required = (await self.metadata()).authorization_response_iss_parameter_supported
        if presented != self.settings.issuer and (presented is not None or required):
            raise SignInRefused(what="the answer is of another provider than the one that was asked", reason="mix_up")

    async def exchange(self, code: str, *, verifier: str, nonce: str) -> Mapping[str, Any]:
        """Return the claims about whoever has signed in: of the ID token, and what the provider says only on request.

        Raises SignInRefused.
        """
        metadata, settings = await self.metadata(), self.settings
        fields = {"grant_type": "authorization_code", "code": code, "redirect_uri": settings.redirect_uri, "code_verifier": verifier}
        headers: list[tuple[bytes, bytes]] = [_FORM]
        secret = settings.client_secret.reveal()
        if secret and "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            pair = f"{quote(settings.client_id, safe='')}:{quote(secret, safe='')}"  # RFC 6749, section 2.3.1
            headers.append((b"authorization", b"Basic " + base64.b64encode(pair.encode())))
        else:
            fields |= {"client_id": settings.client_id, **({"client_secret": secret} if secret else {})}
        body = await self._call(b"POST", metadata.token_endpoint, headers, urlencode(fields).encode(), refusal="refuses this sign-in")
        answer = _decoded(body, _TokenAnswer, "its answer to the code")
        claims = await self._checked(lambda keys, expected: check_id_token(answer.id_token, keys, expected, nonce=nonce))
        is_bearer = answer.token_type.lower() == "bearer"  # RFC 6749, section 7.1: a token of an unknown type must not be used
        return await self._completed(claims, metadata, answer.access_token if is_bearer else "")

    async def check_logout(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a logout token. Raises SignInRefused."""
        return await self._checked(lambda keys, expected: check_logout_token(token, keys, expected))

    async def _checked(self, check: Callable[[KeySet, Expected], T]) -> T:
        """Return what `check` does with the provider's keys, with newer ones if the token has a key that is not known yet."""
        metadata = await self.metadata()
        expected = Expected(
            issuer=self.settings.issuer, client_id=self.settings.client_id, now=self._clock.now(),
            algorithms=metadata.id_token_signing_alg_values_supported,
        )  # fmt: skip
        keys = await self._current_keys(metadata, CACHED_S)
        try:
            return check(keys, expected)
        except UnknownSigningKey:
            newer = await self._current_keys(metadata, REFRESH_S)
            if newer is keys:
                raise
            return check(newer, expected)

    async def _current_keys(self, metadata: Metadata, at_most_s: float) -> KeySet:
        """Return the keys that the provider signs with, at most so old."""
        if self._keys is not None and trio.current_time() < self._keys_at + at_most_s:
            return self._keys
        async with self._fetching():
            if self._keys is None or trio.current_time() >= self._keys_at + at_most_s:
                self._keys = _key_set(await self._call(b"GET", metadata.jwks_uri))
                self._keys_at = trio.current_time()
            return self._keys

    async def _completed(self, claims: Mapping[str, Any], metadata: Metadata, access_token: str) -> Mapping[str, Any]:
        """Add claims of the userinfo endpoint if the ID token lacks any that are needed. Its subject must be the same."""
        needed = {self.settings.name_claim, *(rule.claim for rule in self.settings.roles)}
        if all(claim_values(claims, name) for name in needed) or not metadata.userinfo_endpoint or not access_token:
            return claims
        try:
            headers = [(b"authorization", b"Bearer " + access_token.encode("ascii"))]
        except UnicodeEncodeError:
            raise SignInRefused(what="the provider sent an access token that is not ASCII", reason="provider") from None
        further = _decoded(await self._call(b"GET", metadata.userinfo_endpoint, headers), dict[str, Any], "its userinfo")
        if further.get("sub") != claims["sub"]:
            raise SignInRefused(what="the userinfo is about somebody else", reason="subject")
        return {**further, **claims}

    async def _call(self, method: bytes, address: str, headers: Headers = (), body: bytes = b"", *, refusal: str = "") -> bytes:
        """Return the body of a 200. Raises SignInRefused, which shows nothing of the body."""
        parts = urlsplit(address)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if self._calls >= MAX_CALLS:
            raise SignInRefused(what=f"{MAX_CALLS} sign-ins wait for the provider already", reason="provider")
        self._calls += 1
        try:
            origin = Origin.parse(f"{parts.scheme}://{parts.netloc}")
            with trio.fail_after(ANSWER_S):
                async with self._pool.open(_NAME, method, origin, path.encode("ascii"), headers, body) as response:
                    content = await response.read(MAX_BYTES)
                    status = response.status
        except trio.TooSlowError:
            raise SignInRefused(what=f"the provider did not answer within {ANSWER_S:g} s", reason="provider") from None
        except (ProviderError, ValueError) as error:
            raise SignInRefused(what=f"the provider cannot be reached: {error}", reason="provider") from None
        finally:
            self._calls -= 1
        if status != 200:
            raise SignInRefused(what=f"the provider {refusal or 'answered with an error'} (status {status})", reason="provider")
        return content


def with_query(address: str, fields: Mapping[str, str]) -> str:
    return f"{address}{'&' if '?' in address else '?'}{urlencode(fields)}"


def _decoded(body: bytes, kind: type[T], name: str) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError:
        raise SignInRefused(what=f"the provider sent something else than {name}", reason="provider") from None


def _is_address(address: str, *, local: bool) -> bool:
    """Return whether an address has TLS, or is on this machine where the issuer is (`local`), and fits into a header."""
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    is_plain = address.isascii() and address.isprintable() and " " not in address and not parts.fragment
    return is_plain and bool(host) and (parts.scheme == "https" or (local and parts.scheme == "http" and is_loopback(host)))


def _key_set(body: bytes) -> KeySet:
    """Return the keys for signatures, without those of a kind that is not known (RFC 7517, section 5). Raises SignInRefused."""
    from joserfc.jwk import KeySet

    entries = _decoded(body, dict[str, Any], "its keys").get("keys")
    if not isinstance(entries, list) or len(entries) > MAX_KEYS or not all(isinstance(entry, dict) for entry in entries):
        raise SignInRefused(what="the provider sent something else than its keys", reason="provider")
    keys = [key for entry in entries if (key := _key(entry)) is not None]
    if not keys:
        raise SignInRefused(what="the provider has no key that can be used here", reason="provider")
    return KeySet(keys)


def _key(entry: Mapping[str, Any]) -> Key | None:
    """Return a key for signatures; None for a shared secret, a key for encryption, and one that is unknown, broken or too short."""
    from joserfc.errors import JoseError
    from joserfc.jwk import import_key

    if entry.get("kty") == "oct" or entry.get("use", "sig") != "sig":
        return None
    try:
        if entry.get("kty") == "RSA" and (not isinstance(entry["n"], str) or _bits(entry["n"]) < _RSA_BITS):
            return None
        return import_key(dict(entry))
    except (JoseError, ValueError, TypeError, KeyError):
        return None


def _bits(number: str) -> int:
    """Return the length of a number in base64url."""
    return int.from_bytes(decode_base64url(number.encode()), "big").bit_length()
