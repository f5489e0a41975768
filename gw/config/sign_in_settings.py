"""The section `auth.oidc` of gw.yaml: the OpenID provider with which people sign in, and who gets which role."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from gw.config.fields import Section, http_url, settings_of, text
from gw.config.node import Node
from gw.types.address import is_loopback
from gw.types.ids import ID_PATTERN
from gw.types.roles import Role
from gw.types.secret import Secret


class RoleRule(msgspec.Struct, frozen=True, kw_only=True):
    """A role for people whose claim has a value."""

    claim: Annotated[str, "claim about a person; `a.b` is the member b of a"]
    value: Annotated[str, "what it is, or has among its entries"]
    role: Annotated[Role, "viewer, operator or admin"]
    projects: Annotated[tuple[str, ...], "default: all, also those made later"] = ()
    capture: Annotated[bool, "true: may read captured words and sound"] = False


RULE = settings_of(RoleRule)
_RULE_EXAMPLE = "{claim: groups, value: voice-team, role: viewer}"


def issuer(node: Node) -> str:
    """Parse the address of a provider; a slash at its end belongs to its name."""
    http_url(node)
    return text(node).strip()


def role_rules(node: Node) -> tuple[RoleRule, ...]:
    """Parse the rules that give people a role."""
    rules: list[RoleRule] = []
    for element in node.elements():
        values = Section(dict, RULE)(element)
        given = element.value if isinstance(element.value, dict) else {}
        if missing := [name for name in ("claim", "value", "role") if given.get(name) in (None, "")]:
            element.problem(f"{element.name} needs {' and '.join(missing)}", _RULE_EXAMPLE)
        for place, project in enumerate(values.get("projects", ())):
            if not ID_PATTERN.fullmatch(project):
                Node(node.document, (*element.path, "projects", place), project).problem(f"{project[:80]!r} cannot be the id of a project")
        if {"claim", "value", "role"} <= values.keys():
            rules.append(RoleRule(**values))
    return tuple(rules)


class Oidc(msgspec.Struct, frozen=True, kw_only=True):
    """An OpenID provider. Without `issuer` nobody signs in with one."""

    issuer: Annotated[str, issuer, "the OpenID provider, exactly as it calls itself; people then sign in to the dashboard"] = ""
    client_id: Annotated[str, "this gateway's, at the provider"] = ""
    client_secret: Annotated[Secret, "default: none, for a public client"] = Secret("")
    public_url: Annotated[str, http_url, "this gateway in people's browsers; the provider sends them back to /api/oidc/callback"] = ""
    scopes: Annotated[tuple[str, ...], "what the provider is asked for"] = ("openid", "profile", "email")
    name_claim: Annotated[str, "claim that names people in the audit log"] = "email"
    roles: Annotated[tuple[RoleRule, ...], role_rules, "the first rule that matches counts; who matches none is refused"] = ()
    idle_minutes: Annotated[float, Meta(gt=0, le=525_600), "a session that is not used ends"] = 60.0
    session_hours: Annotated[float, Meta(gt=0, le=8_760), "every session ends"] = 12.0

    @property
    def redirect_uri(self) -> str:
        return f"{self.public_url}/api/oidc/callback"


def faults_of(oidc: Oidc) -> Iterator[tuple[str, str, str]]:
    """Yield the setting, what is wrong with it, and how to mend it."""
    if not oidc.issuer:
        return
    for name, hint in (
        ("client_id", "the id under which this gateway is registered there"),
        ("public_url", "such as https://gw.example.com"),
        ("roles", f"without a rule nobody may sign in: [{_RULE_EXAMPLE}]"),
    ):
        if not getattr(oidc, name):
            yield name, f"auth.oidc needs {name}", hint
    for name in ("issuer", "public_url"):
        parts = urlsplit(getattr(oidc, name))
        if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            yield name, f"auth.oidc.{name} must begin with https://", "without TLS others can read along and sign in as anybody"
    if "openid" not in oidc.scopes:
        yield "scopes", "auth.oidc.scopes must have openid", "scopes: [openid, profile, email]"
