import re
from pathlib import Path

import attrs
import pytest

from gw.config.parse import demo_settings, parse
from gw.registry.merge import accent_of, build, merge
from gw.registry.voice_choice import voice_of
from gw.types.entities import Model, Project, StoredChain, StoredKey, StoredProvider
from gw.types.secret import Secret

TEXT = """
providers:
  openai: {api_key: k, base_url: "https://h/v1"}
  dg: {type: deepgram}
  sim: {latency_ms: 5}
models:
  stt: [dg/nova-3, sim/tone]
  llm: {openai/gpt-4o: {aliases: [big], display_name: Big, price: {unit: 1M_tokens, input: 1}}}
fallbacks: {stt: [dg/nova-3, sim/tone]}
stacks: {s: {stt: sim/tone}}
voices: {v: {sim: tone}}
rate_limiting: {openai: {requests_per_minute: 60, max_concurrent: 2}}
projects:
  a: {daily_budget: 0.01, budget_action: block, default_stack: s, tags: [x], accent: "#010203", providers: {openai: own}}
  tiny: {daily_budget: 1.0e-12}
"""


def built():
    return build(parse(TEXT, file="gw.yaml", env={}, data_dir=Path("/d")))


def test_providers_carry_their_limits_and_place():
    providers = built().providers
    openai, dg, sim = providers["openai"], providers["dg"], providers["sim"]
    assert (openai.requests_per_minute, openai.max_concurrent, openai.base_url) == (60, 2, "https://h/v1")
    assert (dg.type, dg.location, dg.configured, dg.requests_per_minute) == ("deepgram", "cloud", False, None)
    assert (sim.location, sim.configured, sim.options) == ("local", True, {"latency_ms": 5.0})


def test_models_stacks_chains_and_voices():
    catalog = built()
    big = catalog.models["llm:openai/gpt-4o"]
    assert (big.name, big.display_name, big.aliases, big.source) == ("gpt-4o", "Big", ("big",), "yaml")
    [price] = big.prices
    assert price.source == "config"
    assert catalog.chains == {"stt": ("dg/nova-3", "sim/tone")}
    assert catalog.stacks["s"].model("stt") == "sim/tone"
    assert catalog.stacks["s"].model("llm") is None
    assert catalog.voices == {"v": {"sim": "tone"}}


def test_budgets_are_nano_dollars_and_the_default_project_always_exists():
    projects = built().projects
    assert (projects["a"].daily_budget_nusd, projects["a"].budget_action) == (10_000_000, "block")
    assert projects["a"].accent == "#010203"
    assert projects["a"].provider_keys == {"openai": Secret("own")}
    assert projects["tiny"].daily_budget_nusd == 1, "a budget does not become no budget by rounding"
    assert (projects["default"].name, projects["default"].daily_budget_nusd) == ("default", 0)
    configured = build(demo_settings(Path("/d"))).projects["default"]
    assert (configured.name, configured.default_stack) == ("Default", "demo")


def test_the_accent_is_derived_from_the_id():
    assert accent_of("a") == accent_of("a") != accent_of("b")
    assert re.fullmatch("#[0-9a-f]{6}", accent_of("ü"))
    assert built().projects["tiny"].accent == accent_of("tiny")


def test_the_demo_resolves_its_default_models():
    catalog = build(demo_settings(Path("/d")))
    default = catalog.project("default")
    assert [catalog.resolve("", m, default).id for m in ("stt", "llm", "tts")] == ["sim/tone", "sim/scripted", "sim/tone"]
    flaky = catalog.resolve("sim/flaky", "llm", default)
    assert [m.id for m in catalog.candidates(flaky, default)] == ["sim/flaky", "sim/echo"]
    model = catalog.resolve("", "tts", default)
    assert voice_of(catalog, "alloy", model, model) == "tone"
    assert attrs.evolve(catalog) == catalog


DIGEST = "ab" * 32


def merged(*stored):
    settings = parse(TEXT, file="gw.yaml", env={}, data_dir=Path("/d"))
    return merge(settings, stored, lambda entry: Secret(f"key of {entry.id}"))


def test_stored_entities_are_added_to_those_of_the_file():
    result = merged(
        StoredProvider(id="second", type="openai", key="token"),
        Model(modality="tts", provider="second", name="tts-1"),
        Model(modality="llm", provider="sim", name="echo"),
        Project(id="app", daily_budget_nusd=5),
        StoredKey(id="k", digest=DIGEST, masked="", project="app"),
        StoredChain(modality="stt", models=("sim/tone",)),
    )
    catalog = result.catalog
    assert result.warnings == ()
    second = catalog.provider("second")
    assert (second.source, second.api_key, second.public_only) == ("db", Secret("key of second"), True)
    assert [catalog.models[m].source for m in ("tts:second/tts-1", "llm:sim/echo")] == ["db", "db"]
    assert (catalog.project("app").source, catalog.project("a").source) == ("db", "yaml")
    assert [(key.id, key.project, key.digest) for key in catalog.keys] == [("k", "app", DIGEST)]
    assert catalog.chains["stt"] == ("sim/tone",)


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        (StoredProvider(id="openai", type="openai"), "gw.yaml has an entry with the same name"),
        (Model(modality="stt", provider="sim", name="tone"), "gw.yaml has an entry with the same name"),
        (Project(id="a"), "gw.yaml has an entry with the same name"),
        (StoredProvider(id="x", type="hologram"), "this version does not know the type 'hologram'"),
        (StoredProvider(id="x", type="openai", base_url="gopher://h"), "its base_url is not valid"),
        (Model(modality="llm", provider="gone", name="m"), "its provider 'gone' no longer exists"),
        (Model(modality="llm", provider="dg", name="m"), "has the type 'deepgram', which does not offer llm"),
        (StoredKey(id="k", digest=DIGEST, masked="", project="gone"), "its project 'gone' no longer exists"),
        (StoredKey(id="k", digest="none", masked=""), "its digest is not a SHA-256"),
    ],
)
def test_invalid_entries_are_ignored_with_a_warning(stored, why):
    result = merged(stored)
    assert result.catalog == built()
    assert len(result.warnings) == 1
    assert why in result.warnings[0]


def test_listed_hosts_may_be_private():
    settings = parse(
        TEXT + "serve: {provider_base_url_hosts: [Proxy.inside]}", file="gw.yaml", env={}, data_dir=Path("/d")
    )
    stored = (
        StoredProvider(id="listed", type="openai", base_url="http://proxy.inside:9/v1"),
        StoredProvider(id="other", type="openai", base_url="http://proxy.outside/v1"),
        StoredProvider(id="ollama", type="ollama", base_url="http://10.0.0.1"),
    )
    providers = merge(settings, stored).catalog.providers
    assert [providers[entry.id].public_only for entry in stored] == [False, True, False]


def test_a_stored_provider_may_be_a_wyoming_server():
    catalog = merged(StoredProvider(id="w", type="whisper", base_url="tcp://127.0.0.1:10300")).catalog
    assert catalog.provider("w").base_url == "tcp://127.0.0.1:10300"


def test_chains_lose_deleted_models():
    assert merged(StoredChain(modality="stt", models=("gone/m", "sim/tone"))).catalog.chains["stt"] == ("sim/tone",)
