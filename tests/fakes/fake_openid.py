"""An OpenID provider whose answers a test decides: right ones, and those of an attacker.

Its endpoints and members are those of OpenID Connect Core 1.0, Discovery 1.0 and RFC 9207, as in `oidc-provider` 9 from npm
(`tests/clients/test_oidc_provider.py` runs that one); the browser is the test itself, so the page on which people type is left out.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from hashlib import sha256
from queue import Queue
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import attrs
import msgspec
import trio
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from gw.types.asgi import Receive, Scope, Send
from tests.fakes.serve import serve_asgi

SUBJECT, EMAIL = "subject-1", "ana@shop.example"


@attrs.define(eq=False)
class FakeOpenId:
    """`claims` are those of the next ID token; a test changes any of them, or `token`, which makes the token's text of them."""

    now: Callable[[], float]
    issuer: str = ""
    client_id: str = "gw"
    client_secret: str = "client-secret-8351026789"
    claims: dict[str, Any] = attrs.field(factory=dict)
    userinfo: dict[str, Any] = attrs.field(factory=dict)
    token: Callable[[dict[str, Any]], str] | None = None
    metadata: dict[str, Any] = attrs.field(factory=dict)
    """Members of the discovery document that replace the usual ones."""
    key_set: Any = None
    """Answer in place of the key set."""
    keys: list[RSAKey] = attrs.field(factory=lambda: [RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})])
    calls: list[str] = attrs.field(factory=list)
    """Paths in order."""
    token_type: str = "Bearer"
    broken_until: trio.Event | None = None
    """While it is there, calls wait for it, and fail then."""
    codes: dict[str, dict[str, str]] = attrs.field(factory=dict)
    """Code that was not exchanged yet → the query of the authorization request."""

    def authorize(self, address: str) -> dict[str, str]:
        """Let the browser sign in at the address it was sent to; return the query of the callback."""
        parts = urlsplit(address)
        assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{self.issuer}/auth", address
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        assert query["client_id"] == self.client_id
        assert "openid" in query["scope"].split()
        code = f"code-{len(self.codes)}-{len(self.calls)}"
        self.codes[code] = query
        return {"code": code, "state": query["state"], "iss": self.issuer}

    def new_key(self, kid: str, *, only: bool = False) -> None:
        key = RSAKey.generate_key(2048, {"kid": kid, "use": "sig"})
        self.keys = [key] if only else [key, *self.keys]

    def signed(self, claims: dict[str, Any], *, key: RSAKey | None = None, **header: Any) -> str:
        key = key or self.keys[0]
        return jwt.encode({"alg": "RS256", "kid": key.kid, **header}, claims, key)

    def id_token(self, nonce: str) -> str:
        now = int(self.now())
        usual = {
            "iss": self.issuer, "sub": SUBJECT, "aud": self.client_id, "exp": now + 300, "iat": now, "nonce": nonce,
            "email": EMAIL, "email_verified": True, "groups": ["staff"], "sid": "provider-session-1",
        }  # fmt: skip
        claims = {name: value for name, value in (usual | self.claims).items() if value is not None}
        return self.token(claims) if self.token is not None else self.signed(claims)

    def logout_token(self, **changes: Any) -> str:
        now = int(self.now())
        usual = {
            "iss": self.issuer, "aud": self.client_id, "iat": now, "exp": now + 120, "jti": f"logout-{len(self.calls)}", "sub": SUBJECT,
            "events": {"http://schemas.openid.net/event/backchannel-logout": {}},
        }  # fmt: skip
        return self.signed({name: value for name, value in (usual | changes).items() if value is not None}, typ="logout+jwt")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        path = scope["path"]
        self.calls.append(path)
        if self.broken_until is not None:
            await self.broken_until.wait()
        status, answer = self._answer(path, dict(scope["headers"]), body.decode())
        content = msgspec.json.encode(answer)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        if path == "/auth":  # who is known here is sent back at once
            query = self.authorize(f"{self.issuer}/auth?{scope['query_string'].decode()}")
            status = 302
            headers.append((b"location", f"{self.codes[query['code']]['redirect_uri']}?{urlencode(query)}".encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    def _answer(self, path: str, headers: dict[bytes, bytes], body: str) -> tuple[int, Any]:
        if self.broken_until is not None:
            return 503, {}
        match path:
            case "/.well-known/openid-configuration":
                return 200, {
                    "issuer": self.issuer, "authorization_endpoint": f"{self.issuer}/auth", "token_endpoint": f"{self.issuer}/token",
                    "jwks_uri": f"{self.issuer}/jwks", "userinfo_endpoint": f"{self.issuer}/me",
                    "end_session_endpoint": f"{self.issuer}/session/end", "id_token_signing_alg_values_supported": ["RS256"],
                    "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
                    "authorization_response_iss_parameter_supported": True, "response_types_supported": ["code"],
                    "subject_types_supported": ["public"],
                } | self.metadata  # fmt: skip
            case "/jwks":
                return 200, KeySet(list(self.keys)).as_dict(private=False) if self.key_set is None else self.key_set
            case "/token":
                return self._token(headers, body)
            case "/me":
                is_known = headers.get(b"authorization") == b"Bearer access-token"
                return (200, {"sub": SUBJECT} | self.userinfo) if is_known else (401, {"error": "invalid_token"})
        return 404, {}

    def _token(self, headers: dict[bytes, bytes], body: str) -> tuple[int, Any]:
        fields = {name: values[0] for name, values in parse_qs(body).items()}
        expected = base64.b64encode(f"{self.client_id}:{self.client_secret}".encode())
        if headers.get(b"authorization") != b"Basic " + expected:
            return 401, {"error": "invalid_client"}
        asked = self.codes.pop(fields.get("code", ""), None)  # a code is good for one exchange
        verifier = fields.get("code_verifier", "")
        challenge = base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        if asked is None or challenge != asked["code_challenge"] or fields.get("redirect_uri") != asked["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        token = self.id_token(asked["nonce"])
        return 200, {"access_token": "access-token", "token_type": self.token_type, "expires_in": 60, "id_token": token}


@asynccontextmanager
async def open_fake_openid(now: Callable[[], float]) -> AsyncIterator[FakeOpenId]:
    """Run a provider on a loopback port."""
    provider = FakeOpenId(now=now)
    async with trio.open_nursery() as nursery:
        provider.issuer = await nursery.start(serve_asgi, provider)
        yield provider
        nursery.cancel_scope.cancel()


@contextmanager
def loopback_openid(now: Callable[[], float]) -> Iterator[FakeOpenId]:
    """Run a provider in a thread of its own, for gateways and browsers that are processes."""
    ready: Queue[tuple[FakeOpenId, trio.lowlevel.TrioToken, trio.Event]] = Queue()

    async def run() -> None:
        async with open_fake_openid(now) as provider:
            over = trio.Event()
            ready.put((provider, trio.lowlevel.current_trio_token(), over))
            await over.wait()

    thread = threading.Thread(target=trio.run, args=(run,))
    thread.start()
    provider, token, over = ready.get(timeout=60)
    try:
        yield provider
    finally:
        token.run_sync_soon(over.set)
        thread.join()


def callback_target(query: dict[str, str]) -> str:
    return f"/api/oidc/callback?{urlencode(query)}"
