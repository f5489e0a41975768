"""The catalog against a model of it: whatever is made, changed, deleted, reloaded and restarted, in any order."""

from __future__ import annotations

from contextlib import asynccontextmanager, closing
from typing import Any

import apsw
import msgspec
import pytest
import trio
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from structlog.testing import capture_logs

from gw.admin import fallbacks, keys, models, projects, providers
from gw.admin.registrar import Registrar
from gw.config.settings import Settings
from gw.errors import (
    ConflictError,
    GwError,
    ReadOnlyError,
    RequestError,
    UnknownKeyError,
    UnknownModelError,
    UnknownProjectError,
    UnknownProviderError,
)
from gw.registry.catalog import CurrentCatalog
from gw.registry.merge import build
from gw.store import entity_rows
from gw.store.migrations import migrate
from gw.types.provider_types import PROVIDER_TYPES
from tests.fakes.records import HandClock
from tests.fakes.registrar import BY, settings_of

FILES = (
    "providers: {sim: {}}\nmodels: {llm: [sim/echo]}\nfallbacks: {llm: [sim/echo]}",
    "providers: {sim: {}, a: {type: openai, api_key: sk-of-the-file-01234}}\nmodels: {llm: [sim/echo, a/x]}\nprojects: {p: {}}",
    "providers: {b: {type: anthropic, api_key: sk-of-the-file-56789}}\nmodels: {llm: [b/x]}\nprojects: {q: {}}",
)
IN_FILE: tuple[tuple[dict[str, str], set[str], set[str], tuple[str, ...]], ...] = (
    ({"sim": "sim"}, {"llm:sim/echo"}, {"default"}, ("sim/echo",)),
    ({"sim": "sim", "a": "openai"}, {"llm:sim/echo", "llm:a/x"}, {"default", "p"}, ()),
    ({"b": "anthropic"}, {"llm:b/x"}, {"default", "q"}, ()),
)
"""Of each file: providers and their types, models, projects, the chain for llm."""
PROVIDERS = st.sampled_from(["a", "b", "sim"])
PROJECTS = st.sampled_from(["p", "q", "default"])
MODALITIES = st.sampled_from(["stt", "llm", "tts"])
NAMES = st.sampled_from(["x", "echo", "x/y"])
KEYS = st.sampled_from(["", "sk-canary-one-0123", "sk-canary-two-4567"])


class Memory:
    """What the registrar asks of the store, with the store's own SQL, in the caller's thread."""

    def __init__(self, db: apsw.Connection) -> None:
        self.db = db

    async def entities(self):
        return entity_rows.entities(self.db)

    async def meta(self, name):
        return entity_rows.meta(self.db, name)

    @asynccontextmanager
    async def changing(self):
        yield False  # nobody else changes entities

    async def change(self, change):
        await trio.lowlevel.checkpoint()
        entity_rows.apply(self.db, change)


class CatalogMachine(RuleBasedStateMachine):
    configured: tuple[Settings, ...]

    def __init__(self) -> None:
        super().__init__()
        self.db = apsw.Connection(":memory:")
        migrate(self.db)
        self.file = 0
        self.providers: dict[str, tuple[str, str]] = {}
        self.models: set[tuple[str, str, str]] = set()
        self.projects: dict[str, float] = {}
        self.keys: dict[str, str] = {}
        self.chain: tuple[str, ...] | None = None
        self.changes = 0
        self.registrar = self.opened()

    def teardown(self) -> None:
        self.db.close()

    def opened(self) -> Registrar:
        configured = self.configured[self.file]
        made = Registrar(
            configured,
            current=CurrentCatalog(build(configured)),
            store=Memory(self.db),
            clock=HandClock(),
            learn=lambda _secrets: None,
            follow=lambda _catalog: None,
        )
        trio.run(made.load)
        return made

    def run(self, change: Any, *arguments: Any, expected: type[GwError] | None = None, entries: int = 1, **options: Any):
        """Make a change that ends as `expected`, and leaves that many audit entries."""

        async def made() -> Any:
            return await change(self.registrar, *arguments, **options, by=BY)

        if expected is None:
            self.changes += entries
            return trio.run(made)
        with pytest.raises(expected):
            trio.run(made)
        return None

    # what the model says

    @property
    def types(self) -> dict[str, str]:
        return {name: kind for name, (kind, _) in self.providers.items()} | IN_FILE[self.file][0]

    @property
    def models_in_force(self) -> set[str]:
        types = self.types
        fitting = {f"{m}:{p}/{n}" for m, p, n in self.models if p in types and m in PROVIDER_TYPES[types[p]].modalities}
        return fitting | IN_FILE[self.file][1]

    @property
    def projects_in_force(self) -> set[str]:
        return set(self.projects) | IN_FILE[self.file][2]

    # what is done

    @rule(name=PROVIDERS, kind=st.sampled_from(["openai", "anthropic", "ollama"]), key=KEYS)
    def create_provider(self, name, kind, key):
        taken = name in self.types
        body = {"provider_id": name, "provider_type": kind, "api_key": key}
        self.run(providers.create, body, expected=ConflictError if taken else None)
        if not taken:
            self.providers[name] = kind, key

    @rule(name=PROVIDERS, key=KEYS)
    def change_key(self, name, key):
        expected = self.owned_provider(name)
        # The same key again is another envelope, so it is a change; no key instead of none is not.
        nothing = expected is None and not key and not self.providers[name][1]
        self.run(providers.update, name, {"api_key": key}, expected=expected, entries=0 if nothing else 1)
        if expected is None:
            self.providers[name] = self.providers[name][0], key

    @rule(name=PROVIDERS, confirm=st.booleans(), cascade=st.booleans())
    def delete_provider(self, name, confirm, cascade):
        expected = self.owned_provider(name)
        own = {model for model in self.models if model[1] == name}
        if expected is None and confirm and own and not cascade:
            expected = ConflictError
        entries = 1 + len(own) if confirm else 0
        self.run(providers.delete, name, expected=expected, entries=entries, confirm=confirm, cascade=cascade)
        if expected is None and confirm:
            del self.providers[name]
            self.models -= own

    def owned_provider(self, name) -> type[GwError] | None:
        if name in IN_FILE[self.file][0]:
            return ReadOnlyError
        return None if name in self.providers else UnknownProviderError

    @rule(modality=MODALITIES, provider=PROVIDERS, name=NAMES)
    def create_model(self, modality, provider, name):
        expected: type[GwError] | None = None
        if provider not in self.types:
            expected = UnknownProviderError
        elif modality not in PROVIDER_TYPES[self.types[provider]].modalities:
            expected = RequestError
        elif f"{modality}:{provider}/{name}" in self.models_in_force:
            expected = ConflictError
        body = {"modality": modality, "provider_id": provider, "model_name": name}
        self.run(models.create, body, expected=expected)
        if expected is None:
            self.models.add((modality, provider, name))

    @rule(provider=PROVIDERS, name=NAMES, confirm=st.booleans())
    def delete_model(self, provider, name, confirm):
        in_file = IN_FILE[self.file][1]
        same = {m for m in self.models if m[1:] == (provider, name) and f"{m[0]}:{provider}/{name}" not in in_file}
        read_only = any(key.endswith(f":{provider}/{name}") for key in in_file)
        expected = None if same else ReadOnlyError if read_only else UnknownModelError
        entries = len(same) if confirm else 0
        self.run(models.delete, f"{provider}/{name}", expected=expected, entries=entries, confirm=confirm)
        if confirm:
            self.models -= same

    @rule(name=PROJECTS, budget=st.sampled_from([0, 1.5]))
    def create_project(self, name, budget):
        taken = name in self.projects_in_force
        body = {"project_id": name, "daily_budget": budget}
        self.run(projects.create, body, expected=ConflictError if taken else None)
        if not taken:
            self.projects[name] = budget

    @rule(name=PROJECTS, budget=st.sampled_from([0, 1.5, 3]))
    def change_budget(self, name, budget):
        expected = self.owned_project(name)
        entries = int(expected is None and self.projects[name] != budget)
        self.run(projects.update, name, {"daily_budget": budget}, expected=expected, entries=entries)
        if expected is None:
            self.projects[name] = budget

    @rule(name=PROJECTS)
    def delete_project(self, name):
        expected = self.owned_project(name)
        own = [key for key, project in self.keys.items() if project == name]
        self.run(projects.delete, name, expected=expected, entries=1 + len(own), confirm=True)
        if expected is None:
            del self.projects[name]
            for key in own:
                del self.keys[key]

    def owned_project(self, name) -> type[GwError] | None:
        if name in IN_FILE[self.file][2]:
            return ReadOnlyError
        return None if name in self.projects else UnknownProjectError

    @rule(project=PROJECTS)
    def create_key(self, project):
        there = project in self.projects_in_force
        made = self.run(keys.create, {"project": project}, expected=None if there else UnknownProjectError)
        if there:
            self.keys[made.key_id] = project

    @rule(data=st.data())
    def revoke_key(self, data):
        key = data.draw(st.sampled_from([*self.keys, "key_none"]))
        self.run(keys.revoke, key, expected=None if key in self.keys else UnknownKeyError, confirm=True)
        self.keys.pop(key, None)

    @rule(wanted=st.lists(st.sampled_from(["sim/echo", "a/x", "b/x"]), unique=True, max_size=2))
    def set_chain(self, wanted):
        good = all(f"llm:{model}" in self.models_in_force for model in wanted)
        self.run(fallbacks.put, "llm", {"models": wanted}, expected=None if good else RequestError)
        if good:
            self.chain = tuple(wanted)

    @rule()
    def reset_chain(self):
        self.run(fallbacks.reset, "llm", entries=int(self.chain is not None))
        self.chain = None

    @rule(file=st.sampled_from(range(len(FILES))))
    def reload(self, file):
        self.file = file
        trio.run(self.registrar.reload, self.configured[file])

    @rule()
    def restart(self):
        before = self.registrar
        self.registrar = self.opened()
        assert self.registrar.catalog == before.catalog
        assert list(self.registrar.catalog.providers) == list(before.catalog.providers)
        assert self.registrar.stored == before.stored

    # what always holds

    @invariant()
    def the_catalog_is_what_the_model_says(self):
        catalog, (file_types, file_models, file_projects, file_chain) = self.registrar.catalog, IN_FILE[self.file]
        assert {p.id: p.type for p in catalog.providers.values()} == self.types
        assert set(catalog.models) == self.models_in_force
        assert set(catalog.projects) == self.projects_in_force
        for kind, in_file in ((catalog.providers, file_types), (catalog.models, file_models), (catalog.projects, file_projects)):
            assert {name: entry.source for name, entry in kind.items()} == {
                name: "yaml" if name in in_file else "db" for name in kind
            }
        for name, (_, key) in self.providers.items():
            if name not in file_types:
                assert catalog.providers[name].api_key.reveal() == key
        for name, budget in self.projects.items():
            if name not in file_projects:
                assert catalog.projects[name].daily_budget_nusd == budget * 1e9
        assert {key.id: key.project for key in catalog.keys} == {
            key: project for key, project in self.keys.items() if project in self.projects_in_force
        }
        chain = file_chain if self.chain is None else self.chain
        assert catalog.chains.get("llm", ()) == tuple(m for m in chain if f"llm:{m}" in self.models_in_force)

    @invariant()
    def every_change_has_its_entry_and_none_holds_a_key(self):
        entries = entity_rows.audit_page(self.db, limit=10_000, entity_type=None, entity_id=None, action=None, before=None)
        assert len(entries) == self.changes
        assert b"canary" not in msgspec.json.encode(entries)
        with closing(self.db.execute("select group_concat(body) from managed")) as rows:
            assert "canary" not in (next(rows)[0] or "")


def test_the_catalog(tmp_path):
    class WithFiles(CatalogMachine):
        configured = tuple(settings_of(tmp_path, text) for text in FILES)

    WithFiles.TestCase.settings = settings(
        max_examples=30, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
    )
    with capture_logs():  # what is set aside is told each time
        WithFiles.TestCase().runTest()
