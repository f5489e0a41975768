"""The pronunciations of a project through the API: reading its table, and putting another one in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from gw.admin.registrar import Registrar
from gw.admin.request_models import Body, read
from gw.admin.schemas import Schema
from gw.errors import ReadOnlyError, RequestError
from gw.registry.catalog import Catalog
from gw.types.entities import Actor, Project
from gw.types.ids import Source
from gw.types.pronunciation import MOST_PRONUNCIATIONS, Pronunciation, problems_of


class PronunciationBody(Body):
    word: str
    """Word as it stands in texts; matched as a whole word."""
    say: str
    """Words that are spoken in its place, spelled as they sound."""
    ipa: str = ""
    """Phonemes with spaces between them, for models that take them in place of `say`."""
    language: str = ""
    """Only for speech in this language (en, de, …). Empty = any."""
    match_case: bool = False
    """True: capitals count, so that US is not us."""


class ReplacePronunciations(Body):
    pronunciations: list[PronunciationBody]
    """The whole table, at most 2,000 entries; empty = none."""


class PronunciationEntry(Schema):
    word: str
    say: str
    ipa: str
    language: str
    match_case: bool


class ProjectPronunciations(Schema):
    project_id: str
    source: Source
    """`yaml`: the table is in gw.yaml, and cannot be changed here."""
    pronunciations: Sequence[PronunciationEntry]


def pronunciations_of(catalog: Catalog, project_id: str) -> ProjectPronunciations:
    """Return the table of a project. Raises UnknownProjectError."""
    return _shown(catalog.project(project_id))


async def replace(registrar: Registrar, project_id: str, body: Mapping[str, object], by: Actor) -> ProjectPronunciations:
    """Put another table in place of that of a project. Raises RequestError, ReadOnlyError, UnknownProjectError, StoreUnavailable."""
    registrar.catalog.project(project_id)  # an unknown one is said before what is wrong with the body
    entries = tuple(Pronunciation(**msgspec.structs.asdict(entry)) for entry in read(body, ReplacePronunciations).pronunciations)
    _check(entries)
    async with registrar.change(by) as draft:
        stored = registrar.stored.get(("project", project_id))
        if registrar.catalog.project(project_id).source == "yaml" or not isinstance(stored, Project):
            raise ReadOnlyError(entity="project", id=project_id)
        if entries != stored.pronunciations:
            after = msgspec.structs.replace(stored, pronunciations=entries)
            draft.put(after, "update", {"pronunciations": _changes(stored.pronunciations, entries)})
    return _shown(registrar.catalog.project(project_id))


def _check(entries: Sequence[Pronunciation]) -> None:
    if len(entries) > MOST_PRONUNCIATIONS:
        raise RequestError(what=f"a project has at most {MOST_PRONUNCIATIONS} pronunciations, not {len(entries)}", param="pronunciations")
    for number, problem in problems_of(entries):
        raise RequestError(what=f"entry {number + 1}: {problem}", param=f"pronunciations[{number}]")


def _changes(before: Sequence[Pronunciation], after: Sequence[Pronunciation]) -> dict[str, object]:
    """Return what the audit log has of a change: the entries that went and those that came."""
    old, new = set(before), set(after)
    return {
        "from": [msgspec.to_builtins(entry) for entry in before if entry not in new],
        "to": [msgspec.to_builtins(entry) for entry in after if entry not in old],
    }


def _shown(project: Project) -> ProjectPronunciations:
    entries = [
        PronunciationEntry(word=entry.word, say=entry.say, ipa=entry.ipa, language=entry.language, match_case=entry.match_case)
        for entry in project.pronunciations
    ]
    return ProjectPronunciations(project_id=project.id, source=project.source, pronunciations=entries)
