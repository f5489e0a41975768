"""The phrase cache as the API shows it: its size, what it saved, the phrases used last; forgetting them, and having more spoken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from gw.admin.request_models import Body, page_size, project_filter, read
from gw.admin.schemas import Schema, Usd, usd
from gw.errors import RequestError
from gw.policy.other_caches import ListedPhrase, SpeechChoice, merged
from gw.policy.phrase_cache import PhraseCache, share_of
from gw.policy.recent_speech import Warmed
from gw.registry.catalog import Catalog
from gw.store.phrase_store import PhraseStore
from gw.types.entities import DEFAULT_PROJECT, PhraseRules

if TYPE_CHECKING:
    from gw.fleet.shared_phrases import SharedPhrases

DEFAULT_PHRASES, MAX_PHRASES = 100, 1_000


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


class PhrasesOnDisk(Schema):
    """Phrases on the disk, and what was done there since the gateway started. `trouble`: why nothing can be stored now, else empty."""

    phrases: int
    bytes: int
    max_bytes: int
    stored: int
    loaded: int
    evicted: int
    dropped: int
    failed: int
    trouble: str


class PhrasesInFleet(Schema):
    """Phrases in the server of the fleet, and what this gateway has done there since it started. `unanswered`: could not be looked for
    in time; `too_large` and `dropped` ones are at this gateway only. `trouble`: why nothing can be kept there now, else empty."""

    phrases: int
    bytes: int
    max_bytes: int
    stored: int
    loaded: int
    unanswered: int
    evicted: int
    too_large: int
    dropped: int
    trouble: str


class CacheReport(Schema):
    """Figures since the gateway started; phrases and bytes are those in memory. `hit_ratio`: hits of all that were looked for, null
    before the first. `disk` and `fleet` are null where nothing is kept there. `latest`: the phrases in memory that were used last, the
    latest first. With `serve.workers` the figures are sums over all processes: a phrase that several have counts in each, and a
    process that does not answer within a second is left out."""

    phrases: int
    bytes: int
    max_bytes: int
    hits: int
    misses: int
    hit_ratio: float | None
    evicted: int
    saved_usd: Usd
    disk: PhrasesOnDisk | None
    fleet: PhrasesInFleet | None
    latest: Sequence[CachedPhrase]


class CacheCleared(Schema):
    phrases: int
    """Number of phrases that were forgotten."""


class WarmPhrase(Body):
    text: str
    """Text that the apps will say."""
    project: str = DEFAULT_PROJECT
    model: str = ""
    """Only as apps speak with this model id. Empty = all their models."""
    voice: str | None = None
    """Only as apps speak in this voice of the vendor's; empty: its default. Absent = all their voices."""


class WarmedPhrase(Schema):
    """`kinds`: kinds of requests that apps have made, each with its own settings, in which the text was to be spoken; `kept`: those for
    which the cache had all takes already. `spoken`: takes that vendors spoke now; `cost_usd`: what these cost. `left`: takes that are
    still missing, since this took ten seconds: send the request again. `unkept`: takes that are missing since the cache does not keep
    what was spoken."""

    kinds: int
    kept: int
    spoken: int
    left: int
    unkept: int
    cost_usd: Usd


async def report(
    cache: PhraseCache, disk: PhraseStore | None, shared: SharedPhrases | None, catalog: Catalog, *,
    of_workers: Mapping[str, int], limit: str | int = DEFAULT_PHRASES, project: str | None = None,
) -> CacheReport:  # fmt: skip
    """`of_workers`: what the worker processes have done with phrases of the fleet. Raises RequestError, UnknownProjectError."""
    count, wanted = page_size(limit, MAX_PHRASES), project_filter(catalog, project)
    shares = [share_of(cache, count, wanted)]
    if cache.elsewhere is not None:
        shares += await cache.elsewhere.shares(count, wanted)
    all_ = merged(shares, count)
    figures = all_.figures
    return CacheReport(
        phrases=figures.phrases, bytes=figures.bytes, max_bytes=all_.max_bytes, hits=figures.hits, misses=figures.misses,
        hit_ratio=hit_ratio(figures.hits, figures.misses), evicted=figures.evicted, saved_usd=usd(figures.saved_nusd),
        disk=None if disk is None else _on_disk(disk), fleet=None if shared is None else _in_fleet(shared, of_workers),
        latest=[_shown(phrase) for phrase in all_.latest],
    )  # fmt: skip


def hit_ratio(hits: int, misses: int) -> float | None:
    return hits / (hits + misses) if hits or misses else None


def _on_disk(store: PhraseStore) -> PhrasesOnDisk:
    totals, counters = store.totals, store.counters
    return PhrasesOnDisk(
        phrases=totals.phrases, bytes=totals.bytes, max_bytes=store.max_bytes, stored=counters.stored, loaded=counters.loaded,
        evicted=counters.evicted, dropped=counters.dropped, failed=counters.failed, trouble=store.trouble,
    )  # fmt: skip


def _in_fleet(shared: SharedPhrases, of_workers: Mapping[str, int]) -> PhrasesInFleet:
    totals = shared.totals
    counters = Counter(attrs.asdict(shared.counters))
    counters.update(of_workers)
    return PhrasesInFleet(
        phrases=totals.phrases, bytes=totals.bytes, max_bytes=shared.max_bytes, trouble=shared.trouble, **counters
    )


def _shown(phrase: ListedPhrase) -> CachedPhrase:
    return CachedPhrase(
        project=phrase.project, model_id=phrase.model_id, voice=phrase.voice, text=phrase.text, takes=phrase.takes,
        bytes=phrase.size, used=phrase.used, saved_usd=usd(phrase.saved_nusd),
    )  # fmt: skip


async def clear(
    cache: PhraseCache, disk: PhraseStore | None, shared: SharedPhrases | None, catalog: Catalog, *, project: str | None,
    model: str | None, voice: str | None,
) -> CacheCleared:  # fmt: skip
    """Forget the phrases of a project, a model and a voice; None = of all. In a fleet all gateways forget them.

    Those in memory are most of those on the disk and in the fleet, and are counted once, and those of several processes once for each.
    Raises UnknownProjectError, StoreUnavailable, and BankUnreachable before anything was forgotten here.
    """
    chosen, counts = project_filter(catalog, project), list[int]()
    for store in (shared, disk):
        if store is not None:
            counts.append(await store.clear(project=chosen, model_id=model or None, voice=voice))
    forgotten = cache.clear(project=chosen, model_id=model or None, voice=voice)
    if cache.elsewhere is not None:
        forgotten += sum(await cache.elsewhere.clear(project=chosen, model_id=model or None, voice=voice))
    return CacheCleared(phrases=max(*counts, forgotten, 0))


async def have_spoken(
    warm: Callable[[SpeechChoice, PhraseRules], Awaitable[tuple[int, Warmed]]], catalog: Catalog, body: Mapping[str, object]
) -> WarmedPhrase:
    """Have a text spoken for the cache with the settings of the apps' own requests. Raises GwError."""
    wanted = read(body, WarmPhrase)
    project = catalog.project(wanted.project)
    rules, text = project.phrase_cache, wanted.text.strip()
    if rules is None:
        raise RequestError(what=f"project {project.id} keeps no phrases: give it phrase_cache", param="project")
    if not text or len(text) > rules.longest:
        problem = f"has {len(text)} characters; the project keeps {rules.longest} at most" if text else "is empty"
        raise RequestError(what=f"the text {problem}", param="text")
    kinds, done = await warm(SpeechChoice(text, project.id, wanted.model or None, wanted.voice), rules)
    if not kinds:
        raise RequestError(what=f"no app of project {project.id} has spoken so since the gateway started: let one speak first")
    return WarmedPhrase(
        kinds=kinds, kept=done.kept, spoken=done.spoken, left=done.left, unkept=done.unkept, cost_usd=usd(done.cost_nusd)
    )
