"""Signing in to the dashboard with an OpenID provider: authorization code flow with PKCE, and logout from the provider's side.

    browser          GET /api/oidc/start ──302──▶ provider ──302──▶ GET /api/oidc/callback ──302──▶ page of the dashboard
    cookie           gw_sign_in is set                              gw_sign_in is removed, gw_session is set
                     (both names begin with __Host- where the browser has TLS)

The cookie `gw_sign_in` has the secrets of one sign-in (state, nonce, PKCE verifier), encrypted with the vault's key, so that any gateway of
a fleet can finish what another one began. A callback counts only in the browser that began the sign-in, within FLOW_S, and once.
Whoever is refused gets to the dashboard, which says why in general; the log has the reason.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from functools import partial
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
import structlog

from gw.admin import logins
from gw.admin.logins import Visit
from gw.admin.schemas import Schema
from gw.errors import GwError, RequestError, SignInRefused
from gw.gateway import Gateway
from gw.types.entities import Actor, StoredLogin
from gw.types.secret import Secret
from gw.web import session_cookies
from gw.web.reply import NOT_CACHED, Reply, json_reply
from gw.web.route import QueryField, Raw, Request, Route

FLOW_COOKIE: Final = "gw_sign_in"
FLOW_S: Final = 600.0  # between the start and the callback: time to type a password, and a second factor
_ABOUT: Final = "sign-in"  # what the cookie is encrypted for
_AGENT_CHARACTERS: Final = 200
_log = structlog.get_logger("gw.web")


class _Flow(msgspec.Struct, frozen=True, kw_only=True):
    """Secrets of one sign-in."""

    state: str
    nonce: str
    verifier: str
    back_to: str
    expires_at: float


async def start(request: Request) -> Reply:
    """Send the browser to the provider."""
    try:
        provider = request.plane.sign_ins.provider(request.gateway)
        flow = _Flow(
            state=secrets.token_urlsafe(32), nonce=secrets.token_urlsafe(32), verifier=secrets.token_urlsafe(48),
            back_to=_checked_page(request.query["back_to"]), expires_at=request.gateway.clock.now() + FLOW_S,
        )  # fmt: skip
        challenge = urlsafe_b64encode(sha256(flow.verifier.encode()).digest()).rstrip(b"=").decode()
        address = await provider.authorization_url(state=flow.state, nonce=flow.nonce, challenge=challenge)
        sealed = await _sealed(request.gateway, flow)
    except SignInRefused as refusal:
        return _refused(refusal)
    return _redirect(address, [_flow_cookie(request, sealed)])


async def callback(request: Request) -> Reply:
    """Finish a sign-in: check the provider's answer, exchange its code, and begin a session."""
    try:
        fields, now = _single(request.fields), request.gateway.clock.now()
        flow = await _opened(request.gateway, request)
        if not hmac.compare_digest(flow.state.encode(), fields.get("state", "").encode()):
            raise SignInRefused(what="the answer belongs to another sign-in", reason="state")
        if flow.expires_at <= now:
            raise SignInRefused(what="the sign-in took too long", reason="expired")
        with request.plane.sign_ins.once(flow.state, flow.expires_at, now):
            claims = await _claims(request, fields, flow)
            cookie, login = await logins.begin_for_person(request.registrar, claims, visit_of(request))
    except SignInRefused as refusal:
        return _refused(refusal, [_flow_cookie(request, "")])
    _log.info("signed_in", person=login.name, login_id=login.id)
    return _redirect(flow.back_to, [_flow_cookie(request, ""), session_header(request, cookie)])


async def _claims(request: Request, fields: Mapping[str, str], flow: _Flow) -> Mapping[str, Any]:
    """Return the claims about who has signed in. Raises SignInRefused."""
    provider = request.plane.sign_ins.provider(request.gateway)
    await provider.check_issuer(fields.get("iss"))
    if "error" in fields:
        raise SignInRefused(what=f"the provider refused: {_plain(fields['error'])}", reason="denied")
    if not fields.get("code"):
        raise SignInRefused(what="the answer has no code", reason="state")
    return await provider.exchange(fields["code"], verifier=flow.verifier, nonce=flow.nonce)


class BackchannelAnswer(Schema):
    """Number of sessions that were ended."""

    ended: int


class LogoutRefused(RequestError, status=400, code="logout_refused"):
    """A logout token is not accepted. 400 and not 422, as Back-Channel Logout 1.0, section 2.8, wants it."""


async def backchannel_logout(request: Request) -> Reply:
    """End the sessions that the provider's logout token names (OpenID Connect Back-Channel Logout 1.0).

    Raises LogoutRefused, and StoreUnavailable, after which the provider can send the same token again.
    """
    sign_ins, now = request.plane.sign_ins, request.gateway.clock.now()
    token = request.body.get("logout_token")
    if not isinstance(token, str) or not token:
        raise LogoutRefused(what="the field logout_token is required", param="logout_token")
    try:
        claims = await sign_ins.provider(request.gateway).check_logout(token)
        with sign_ins.once(str(claims["jti"]), now + FLOW_S * 2, now):
            ended = await _end_named(request, claims)
    except SignInRefused as refusal:
        _log.warning("logout_refused", reason=refusal.reason, why=refusal.what)
        raise LogoutRefused(what=refusal.what, param="logout_token") from None
    return json_reply(BackchannelAnswer(ended=ended), headers=[NOT_CACHED])


async def _end_named(request: Request, claims: Mapping[str, Any]) -> int:
    """End the sessions of the person or the provider's session that a logout token names; return their number. Raises StoreUnavailable."""
    issuer, subject, session = request.gateway.settings.auth.oidc.issuer, claims.get("sub"), claims.get("sid")

    def ends(login: StoredLogin) -> bool:
        of_person = login.issuer == issuer and (subject is None or login.subject == subject)
        return of_person and (session is None or login.provider_session == session)

    return await logins.end_all(request.registrar, ends, Actor(source="api", name="the OpenID provider"))


def visit_of(request: Request) -> Visit:
    client = request.scope.get("client")
    agent = "".join(filter(str.isprintable, request.header(b"user-agent")))[:_AGENT_CHARACTERS]
    return Visit(address=client[0] if client else "", agent=agent)


def session_header(request: Request, value: str) -> tuple[bytes, bytes]:
    """Return the `Set-Cookie` header of a session; an empty `value` removes it."""
    oidc = request.gateway.settings.auth.oidc
    lasts_s = int(oidc.session_hours * 3_600)
    return b"set-cookie", session_cookies.set_session_cookie(value, secure=is_secure(request), lasts_s=lasts_s).encode()


def is_secure(request: Request) -> bool:
    """Return whether the browser has TLS: the gateway's own, or that of a proxy. The page's Origin says so, else `public_url`."""
    page = request.header(b"origin") or request.gateway.settings.auth.oidc.public_url
    return request.scope.get("scheme") == "https" or page.startswith("https:")


def _flow_cookie(request: Request, value: str) -> tuple[bytes, bytes]:
    age = int(FLOW_S) if value else 0
    flags = "HttpOnly; SameSite=Lax" + ("; Secure" if is_secure(request) else "")  # Lax: the provider sends the browser back
    return b"set-cookie", f"{_flow_name(request)}={value}; Path=/; Max-Age={age}; {flags}".encode()


def _flow_name(request: Request) -> str:
    """Return the name of the cookie of a sign-in. With TLS no other is read: a neighbour below the domain could have set it."""
    return (session_cookies.SECURE if is_secure(request) else "") + FLOW_COOKIE


async def _sealed(gateway: Gateway, flow: _Flow) -> str:
    vault = await gateway.registrar.vault()
    issuer = gateway.settings.auth.oidc.issuer
    return vault.encrypt(Secret(msgspec.json.encode(flow).decode()), provider=_ABOUT, origin=issuer).decode()


async def _opened(gateway: Gateway, request: Request) -> _Flow:
    """Return the sign-in of the browser's cookie. Raises SignInRefused for none, and for one with another provider."""
    value = next(session_cookies.values_of(session_cookies.cookies(request.scope), _flow_name(request)), b"")
    if not value:
        raise SignInRefused(what="this browser has not begun to sign in", reason="state")
    vault = await gateway.registrar.vault()
    try:
        content = vault.decrypt(value, provider=_ABOUT, origin=gateway.settings.auth.oidc.issuer)
        return msgspec.json.decode(content.reveal(), type=_Flow)
    except (GwError, msgspec.DecodeError):
        raise SignInRefused(what="this browser has not begun to sign in with this provider", reason="state") from None


def _single(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return fields by name. Raises SignInRefused for one that appears twice (RFC 6749, section 3.1)."""
    values: dict[str, str] = {}
    for name, value in fields:
        if name in values:
            raise SignInRefused(what=f"the answer has the field {_plain(name)} twice", reason="state")
        values[name] = value
    return values


def _checked_page(path: str) -> str:
    """Return a path of this site; "/" for anything else."""
    is_own = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isascii() and path.isprintable()
    return path if is_own and "\\" not in path and len(path) <= 500 else "/"


def _plain(text: str) -> str:
    return "".join(character for character in text if character.isalnum() or character in "_-. ")[:80]


def _refused(refusal: SignInRefused, headers: Iterable[tuple[bytes, bytes]] = ()) -> Reply:
    _log.warning("sign_in_refused", reason=refusal.reason, why=refusal.what)
    return _redirect("/?" + urlencode({"sign_in_refused": refusal.reason}), headers)


def _redirect(address: str, headers: Iterable[tuple[bytes, bytes]]) -> Reply:
    return Reply(b"", b"text/plain", [(b"location", address.encode("ascii")), NOT_CACHED, *headers], 302)


_oidc = partial(Route, tag="People")
_TEXT = {"type": "string"}
_ELSEWHERE = (Raw("text/plain", _TEXT),)

ROUTES = (
    _oidc(
        "GET", "/api/oidc/start", "oidc_start", "Begin to sign in with the OpenID provider.", start, answers=_ELSEWHERE,
        query=(QueryField("back_to", {"type": "string", "default": "/"}, "Path of the page to show afterwards."),),
        notes="Answers 302: to the provider, or to the dashboard with `sign_in_refused`.",
    ),
    _oidc(
        "GET", "/api/oidc/callback", "oidc_callback", "Finish a sign-in; the provider sends the browser here.", callback,
        query=tuple(QueryField(name, _TEXT, "Set by the provider.") for name in ("code", "state", "iss", "error")), answers=_ELSEWHERE,
        notes="Answers 302: to the dashboard with a session, or with `sign_in_refused`.",
    ),
    _oidc(
        "POST", "/api/oidc/backchannel-logout", "oidc_logout", "End the sessions that the provider's logout token names.",
        backchannel_logout, body=Raw("application/x-www-form-urlencoded", {"type": "object", "properties": {"logout_token": _TEXT}}),
        answers=(BackchannelAnswer,), errors=(400, 422, 503),
    ),
)  # fmt: skip
