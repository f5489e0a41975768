"""Which candidates cannot serve a request at all."""

from __future__ import annotations

from gw.types.llm import Ability


def missing(abilities: frozenset[Ability], needs: frozenset[Ability]) -> frozenset[Ability]:
    """What a request needs and a provider does not offer; empty = it may be tried."""
    return needs - abilities
