"""Routes of the phrase cache."""

from __future__ import annotations

from collections import Counter
from functools import partial

from gw.admin import phrases
from gw.relay.phrase_warming import warm_everywhere
from gw.web.route import QueryField, Request, Route

_PROJECT = QueryField("project", {"type": "string"}, "Only phrases of this project.")
_phrases = partial(Route, tag="Phrase cache")


async def _report(request: Request) -> phrases.CacheReport:
    gateway, query = request.gateway, request.query
    of_workers = Counter[str]()
    for worker in gateway.workers():
        of_workers.update(worker.figures.fleet_phrases)
    return await phrases.report(
        gateway.relay.phrases, gateway.phrase_store, gateway.shared_phrases, request.catalog, of_workers=of_workers,
        project=query["project"], limit=query["limit"] or phrases.DEFAULT_PHRASES,
    )  # fmt: skip


async def _clear(request: Request) -> phrases.CacheCleared:
    gateway, query = request.gateway, request.query
    return await phrases.clear(
        gateway.relay.phrases, gateway.phrase_store, gateway.shared_phrases, request.catalog,
        project=query["project"], model=query["model"], voice=query["voice"],
    )  # fmt: skip


async def _warm(request: Request) -> phrases.WarmedPhrase:
    return await phrases.have_spoken(partial(warm_everywhere, request.gateway.relay), request.catalog, request.body)


PHRASES = (
    _phrases(
        "GET", "/v1/cache", "phrase_cache", "Size and use of the phrase cache, and the phrases used last.", _report,
        query=(_PROJECT, QueryField(
            "limit", {"type": "integer", "minimum": 1, "maximum": phrases.MAX_PHRASES, "default": phrases.DEFAULT_PHRASES},
            "Phrases to list.",
        )),
        answers=(phrases.CacheReport,), errors=(404, 422),
    ),
    _phrases(
        "DELETE", "/v1/cache", "clear_phrase_cache", "Forget phrases: all, or those of a project, a model or a voice.", _clear,
        query=(
            _PROJECT, QueryField("model", {"type": "string"}, "Only those of this model id."),
            QueryField("voice", {"type": "string"}, "Only those in this voice of the vendor's; empty: its default."),
        ),
        answers=(phrases.CacheCleared,), errors=(404, 422, 503),
    ),
    _phrases(
        "POST", "/v1/cache/warm", "warm_phrase", "Have a text spoken as the apps of a project have had theirs, so that the cache has it.",
        _warm, body=phrases.WarmPhrase, answers=(phrases.WarmedPhrase,), errors=(402, 404, 422, 429, 502, 503),
        notes="The gateway knows the settings of requests since its start. It takes as long as the vendors speak, and is billed like "
              "any request of the project.",
    ),
)  # fmt: skip
