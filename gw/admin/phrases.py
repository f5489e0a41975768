"""The phrase cache as the API shows it: its size, what it saved, the phrases used last; and forgetting them."""

from __future__ import annotations

from collections.abc import Sequence

from gw.admin.request_models import page_size, project_filter
from gw.admin.schemas import Schema, Usd, usd
from gw.errors import RequestError
from gw.policy.phrase_cache import KeptPhrase, PhraseCache
from gw.registry.catalog import Catalog

DEFAULT_PHRASES, MAX_PHRASES = 100, 1_000
_OF_WORKERS = "each process of serve.workers has a phrase cache of its own, which no other one can read; restart them to empty it"


class CachedPhrase(Schema):
    """A text in one voice. `takes`: its recordings; `used`: how often they were played in place of a call; `saved_usd`: what its
    vendor would have charged for that."""

    project: str
    model_id: str
    voice: str
    text: str
    takes: int
    bytes: int
    used: int
    saved_usd: Usd


class CacheReport(Schema):
    """Figures since the gateway started. `latest`: the phrases used last, the latest first."""

    phrases: int
    bytes: int
    max_bytes: int
    hits: int
    misses: int
    evicted: int
    saved_usd: Usd
    latest: Sequence[CachedPhrase]


class CacheCleared(Schema):
    phrases: int
    """Number of phrases that were forgotten."""


def report(
    cache: PhraseCache, catalog: Catalog, *, workers: int, limit: str | int = DEFAULT_PHRASES, project: str | None = None
) -> CacheReport:
    """Raises RequestError, UnknownProjectError."""
    _require_own(workers)
    count, wanted = page_size(limit, MAX_PHRASES), project_filter(catalog, project)
    figures = cache.figures
    return CacheReport(
        phrases=figures.phrases, bytes=figures.bytes, max_bytes=cache.most_bytes, hits=figures.hits, misses=figures.misses,
        evicted=figures.evicted, saved_usd=usd(figures.saved_nusd),
        latest=[_shown(phrase) for phrase in cache.latest(count, project=wanted)],
    )  # fmt: skip


def _shown(phrase: KeptPhrase) -> CachedPhrase:
    return CachedPhrase(
        project=phrase.project, model_id=phrase.model_id, voice=phrase.voice, text=phrase.text, takes=len(phrase.takes),
        bytes=phrase.size, used=phrase.used, saved_usd=usd(phrase.saved_nusd),
    )  # fmt: skip


def clear(
    cache: PhraseCache, catalog: Catalog, *, workers: int, project: str | None, model: str | None, voice: str | None
) -> CacheCleared:
    """Forget the phrases of a project, a model and a voice; None = of all. Raises RequestError, UnknownProjectError."""
    _require_own(workers)
    chosen = project_filter(catalog, project)
    return CacheCleared(phrases=cache.clear(project=chosen, model_id=model or None, voice=voice))


def _require_own(workers: int) -> None:
    if workers:
        raise RequestError(what=_OF_WORKERS)
