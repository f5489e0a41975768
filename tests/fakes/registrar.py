"""A registrar over a real database and a small configuration."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs

from gw.admin.registrar import Registrar
from gw.config.parse import parse
from gw.registry.catalog import CurrentCatalog
from gw.registry.merge import build
from gw.store.store import open_store
from gw.types.entities import Actor
from gw.types.secret import Secret
from tests.fakes.records import HandClock

TEXT = """
providers: {sim: {}, openai: {api_key: sk-from-the-file-0123}}
models: {llm: [sim/echo, openai/gpt-x], stt: [sim/tone], tts: [sim/tone]}
stacks: {demo: {stt: sim/tone, llm: sim/echo, tts: sim/tone}}
fallbacks: {llm: [openai/gpt-x, sim/echo]}
projects: {shop: {daily_budget: 2}}
serve: {provider_base_url_hosts: [proxy.inside, 10.1.2.3]}
"""
BY = Actor(source="api", name="admin")


@attrs.define
class Learnt:
    """Every secret the log was told to hide."""

    values: list[str] = attrs.field(factory=list)

    def __call__(self, secrets) -> None:
        self.values += [secret.reveal() for secret in secrets if secret]


def settings_of(folder: Path, text: str = TEXT, *, secret: str = "the secret", previous: str = ""):
    parsed = parse(text, file="gw.yaml", env={}, data_dir=folder)
    return attrs.evolve(
        parsed, secret=Secret(secret), previous_secret=Secret(previous), secret_folder=folder / "config"
    )


@asynccontextmanager
async def open_registrar(folder: Path, text: str = TEXT, **secrets: str) -> AsyncIterator[Registrar]:
    settings = settings_of(folder, text, **secrets)
    clock = HandClock()
    async with open_store(settings.cost_tracking.db_path, clock=clock) as store:
        current = CurrentCatalog(build(settings))
        made = Registrar(settings, current=current, store=store, clock=clock, learn=Learnt(), follow=lambda _catalog: None)
        await made.load()
        yield made
