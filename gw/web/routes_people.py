"""Routes of those who use the control plane: service tokens with a role."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

from gw.admin import tokens
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


_tokens = partial(Route, tag="People")

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
)  # fmt: skip
