"""Abilities that a request needs and a provider offers."""

from __future__ import annotations

from gw.types.llm import Ability


def missing(abilities: frozenset[Ability], needs: frozenset[Ability]) -> frozenset[Ability]:
    """Return the needed abilities that a provider lacks; empty = it may be tried."""
    return needs - abilities
