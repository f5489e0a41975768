"""Roles of people and of service tokens, and what they cover."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

Role = Literal["viewer", "operator", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
"""From the fewest rights to the most; each role has the rights of those before it."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Rights of a holder: a role for all projects or for some, and whether captured content may be read there."""

    role: Role
    projects: frozenset[str] | None = None
    """Null = all."""
    capture: bool = False

    def covers(self, role: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)

    def reaches(self, project: str) -> bool:
        return self.projects is None or project in self.projects


EVERYTHING = Access(role="admin", capture=True)
"""Rights of the admin token, and of everybody where no credential is needed."""
