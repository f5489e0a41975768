"""Signing in to the dashboard with an OpenID provider: authorization code flow with PKCE, and logout from the provider's side.

    browser          GET /api/oidc/start ──302──▶ provider ──302──▶ GET /api/oidc/callback ──302──▶ page of the dashboard
    cookie           gw_sign_in is set                              gw_sign_in is removed, gw_session is set

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
        flow, claims = await _signed_in(request)
        cookie, login = await logins.begin_for_person(request.registrar, claims, visit_of(request))
    except SignInRefused as refusal:
        return _refused(refusal, [_flow_cookie(request, "")])
    _log.info("signed_in", person=login.name, login_id=login.id)
    return _redirect(flow.back_to, [_flow_cookie(request, ""), session_header(request, cookie)])


async def _signed_in(request: Request) -> tuple[_Flow, Mapping[str, Any]]:
    """Return the sign-in that the callback finishes, and the claims about who has signed in. Raises SignInRefused."""
    fields, gateway, sign_ins = _single(request.fields), request.gateway, request.plane.sign_ins
    provider, now = sign_ins.provider(gateway), gateway.clock.now()
    flow = await _opened(gateway, request)
    if not hmac.compare_digest(flow.state.encode(), fields.get("state", "").encode()):
        raise SignInRefused(what="the answer belongs to another sign-in", reason="state")
    if flow.expires_at <= now:
        raise SignInRefused(what="the sign-in took too long", reason="expired")
    sign_ins.use(flow.state, flow.expires_at, now)
    await provider.check_issuer(fields.get("iss"))
    if "error" in fields:
        raise SignInRefused(what=f"the provider refused: {_plain(fields['error'])}", reason="denied")
    if not fields.get("code"):
        raise SignInRefused(what="the answer has no code", reason="state")
    return flow, await provider.exchange(fields["code"], verifier=flow.verifier, nonce=flow.nonce)


class BackchannelAnswer(Schema):
    """Number of sessions that were ended."""

    ended: int


async def backchannel_logout(request: Request) -> Reply:
    """End the sessions that the provider's logout token names (OpenID Connect Back-Channel Logout 1.0). Raises RequestError."""
    gateway, sign_ins = request.gateway, request.plane.sign_ins
    token = request.body.get("logout_token")
    if not isinstance(token, str) or not token:
        raise RequestError(what="the field logout_token is required", param="logout_token")
    try:
        claims = await sign_ins.provider(gateway).check_logout(token)
        sign_ins.use(str(claims["jti"]), gateway.clock.now() + FLOW_S * 2, gateway.clock.now())
    except SignInRefused as refusal:
        _log.warning("logout_refused", reason=refusal.reason, why=refusal.what)
        raise RequestError(what=refusal.what, param="logout_token") from None
    issuer, subject, session = gateway.settings.auth.oidc.issuer, claims.get("sub"), claims.get("sid")

    def ends(login: StoredLogin) -> bool:
        of_person = login.issuer == issuer and (subject is None or login.subject == subject)
        return of_person and (session is None or login.provider_session == session)

    ended = await logins.end_all(request.registrar, ends, Actor(source="api", name="the OpenID provider"))
    return json_reply(BackchannelAnswer(ended=ended), headers=[NOT_CACHED])


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
    """Return whether browsers reach this gateway with TLS: its own, or that of a proxy before `public_url`."""
    public_url = request.gateway.settings.auth.oidc.public_url
    return request.scope.get("scheme") == "https" or public_url.startswith("https:")


def _flow_cookie(request: Request, value: str) -> tuple[bytes, bytes]:
    age = int(FLOW_S) if value else 0
    text = f"{FLOW_COOKIE}={value}; Path=/api/oidc; Max-Age={age}; HttpOnly; SameSite=Lax"  # Lax: the provider sends the browser back
    return b"set-cookie", (text + ("; Secure" if is_secure(request) else "")).encode()


async def _sealed(gateway: Gateway, flow: _Flow) -> str:
    vault = await gateway.registrar.vault()
    issuer = gateway.settings.auth.oidc.issuer
    return vault.encrypt(Secret(msgspec.json.encode(flow).decode()), provider=_ABOUT, origin=issuer).decode()


async def _opened(gateway: Gateway, request: Request) -> _Flow:
    """Return the sign-in of the browser's cookie. Raises SignInRefused for none, and for one with another provider."""
    value = next(session_cookies.values_of(session_cookies.cookies(request.scope), FLOW_COOKIE), b"")
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
        answers=(BackchannelAnswer,), errors=(422, 503),
    ),
)  # fmt: skip
