"""The dashboard's page about those who use the control plane: service tokens, people, and sessions, as one object."""

from __future__ import annotations

from gw.admin import logins, tokens
from gw.admin.logins import LoginEntry, PersonEntry
from gw.admin.schemas import Schema
from gw.admin.tokens import TokenEntry
from gw.config.sign_in_settings import Oidc
from gw.registry.catalog import Catalog


class PeoplePage(Schema):
    """`projects`: those that a new token can be for. `everybody`: false for an administrator of some projects, who sees the tokens
    for these projects only, and neither people nor sessions. `sign_in`: people can sign in with an OpenID provider."""

    tokens: list[TokenEntry]
    people: list[PersonEntry]
    logins: list[LoginEntry]
    projects: list[str]
    everybody: bool
    sign_in: bool


def people_page(catalog: Catalog, oidc: Oidc, this_one: str, *, everybody: bool) -> PeoplePage:
    """Return what somebody may see for whom `catalog` has what is theirs. `this_one`: the session of the request."""
    return PeoplePage(
        tokens=tokens.listing(catalog).tokens,
        people=logins.people(catalog, oidc).people if everybody else [],
        logins=logins.listing(catalog, this_one).logins if everybody else [],
        projects=list(catalog.projects),
        everybody=everybody,
        sign_in=bool(oidc.issuer),
    )
