"""Routes of those who use the control plane: service tokens, people, and their sessions of the dashboard."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

from gw.admin import logins, tokens
from gw.admin.people_page import PeoplePage, people_page
from gw.admin.registrar import Deleted
from gw.types.roles import Access
from gw.web.route import QueryField, Request, Route

_CONFIRM = QueryField(
    "confirm", {"type": "string", "pattern": "^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee]|0|1)$", "default": "false"},
    "true, false, 1 or 0 in any case. Without it nothing is deleted; the answer says what would be.",
)  # fmt: skip


def access_of(request: Request) -> Access | None:
    return None if request.principal is None else request.principal.access


def create_token(request: Request) -> Awaitable[tokens.MadeToken]:
    return tokens.create(request.registrar, request.catalog, request.body, request.actor, access_of(request))


def revoke_token(request: Request) -> Awaitable[tokens.TokenPreview | Deleted]:
    return tokens.revoke(request.registrar, request.catalog, request.name, confirm=request.flag("confirm"), by=request.actor)


def own_login(request: Request) -> str:
    return "" if request.principal is None else request.principal.login_id


def page(request: Request) -> PeoplePage:
    oidc = request.gateway.settings.auth.oidc
    return people_page(request.catalog, oidc, own_login(request), everybody=request.projects is None)


_tokens = partial(Route, tag="People")
_people = _tokens

PEOPLE = (
    _tokens(
        "GET", "/v1/tokens", "list_tokens", "All service tokens, masked.", lambda r: tokens.listing(r.catalog), answers=(tokens.Tokens,),
        notes="An administrator of some projects sees the tokens for these projects only.",
    ),
    _tokens(
        "POST", "/v1/tokens", "create_token", "Make a service token: a credential for programs, with a role.", create_token,
        body=tokens.CreateToken, answers=(tokens.MadeToken,), errors=(404, 422, 503),
        notes="Only this answer contains the token. Nobody can grant more rights than their own.",
    ),
    _tokens(
        "GET", "/v1/tokens/{token_id}", "get_token", "One service token, masked.", lambda r: tokens.one(r.catalog, r.name),
        answers=(tokens.TokenEntry,), errors=(404,),
    ),
    _tokens(
        "DELETE", "/v1/tokens/{token_id}", "revoke_token", "Revoke a service token, from the next request on.", revoke_token,
        query=(_CONFIRM,), answers=(tokens.TokenPreview, Deleted), errors=(404, 422, 503),
    ),
    _people(
        "GET", "/v1/people", "list_people", "Everybody who has signed in with the OpenID provider, with their role.",
        lambda r: logins.people(r.catalog, r.gateway.settings.auth.oidc), answers=(logins.People,),
    ),
    _people(
        "PATCH", "/v1/people/{person_id}", "update_person", "Block a person, which ends their sessions, or unblock them.",
        lambda r: logins.update_person(r.registrar, r.name, r.body, r.actor), body=logins.UpdatePerson, answers=(logins.PersonUpdated,),
        errors=(404, 422, 503),
    ),
    _people(
        "GET", "/v1/logins", "list_logins", "Sessions of the dashboard, of people and service tokens, the newest first.",
        lambda r: logins.listing(r.catalog, own_login(r)), answers=(logins.Logins,),
        notes="Sessions made with the admin token are not stored: another admin token ends them.",
    ),
    _people(
        "DELETE", "/v1/logins/{login_id}", "end_login", "End a session of the dashboard, from the next request on.",
        lambda r: logins.end(r.registrar, r.name, confirm=r.flag("confirm"), by=r.actor), query=(_CONFIRM,),
        answers=(logins.LoginPreview, Deleted), errors=(404, 422, 503),
    ),
    Route(
        "GET", "/api/pages/people", "page_people", "Service tokens, people and sessions.", page, tag="Dashboard", answers=(PeoplePage,),
        notes="An administrator of some projects sees the tokens for these projects only.",
    ),
)  # fmt: skip
