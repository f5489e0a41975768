import re
from pathlib import Path

import attrs

from gw.config.demo import demo_settings
from gw.config.parse import parse
from gw.registry.merge import accent_of, build
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
    assert big.price is not None
    assert big.price.source == "config"
    assert catalog.chains == {"stt": ("dg/nova-3", "sim/tone")}
    assert catalog.stacks["s"].model("stt") == "sim/tone"
    assert catalog.stacks["s"].model("llm") is None
    assert catalog.voices == {"v": {"sim": "tone"}}


def test_projects_count_in_nano_dollars_and_default_is_always_there():
    projects = built().projects
    assert (projects["a"].daily_budget_nusd, projects["a"].budget_action) == (10_000_000, "block")
    assert projects["a"].accent == "#010203"
    assert projects["a"].provider_keys == {"openai": Secret("own")}
    assert projects["tiny"].daily_budget_nusd == 1, "a budget does not become no budget by rounding"
    assert (projects["default"].name, projects["default"].daily_budget_nusd) == ("default", 0)
    configured = build(demo_settings(Path("/d"))).projects["default"]
    assert (configured.name, configured.default_stack) == ("Default", "demo")


def test_an_accent_is_made_from_the_id():
    assert accent_of("a") == accent_of("a") != accent_of("b")
    assert re.fullmatch("#[0-9a-f]{6}", accent_of("ü"))
    assert built().projects["tiny"].accent == accent_of("tiny")


def test_the_demo_resolves_what_its_first_minutes_need():
    catalog = build(demo_settings(Path("/d")))
    default = catalog.project("default")
    assert [catalog.resolve("", m, default).id for m in ("stt", "llm", "tts")] == ["sim/tone", "sim/echo", "sim/tone"]
    flaky = catalog.resolve("sim/flaky", "llm", default)
    assert [m.id for m in catalog.candidates(flaky, default)] == ["sim/flaky", "sim/echo"]
    assert catalog.voice("alloy", catalog.provider("sim")) == "tone"
    assert attrs.evolve(catalog) == catalog
