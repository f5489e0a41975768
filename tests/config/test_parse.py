import re
from pathlib import Path

import pytest

from gw.config.gw_yaml import example_text
from gw.config.load import load
from gw.config.parse import load_settings, parse
from gw.config.settings import Auth, BreakerSettings, CostTracking, RateLimit, Routing, Serve
from gw.errors import ConfigError
from gw.types.entities import Model, Price
from gw.types.secret import Secret

DATA = Path("/data")
BASE = "providers: {openai: {api_key: k}, sim: }\nmodels: {llm: [openai/gpt-4o, sim/echo], stt: [sim/tone], tts: [sim/tone]}\n"


def read(text, **env):
    return parse(text, file="gw.yaml", env=env, data_dir=DATA)


def problems(text, **env):
    with pytest.raises(ConfigError) as raised:
        read(text, **env)
    assert str(raised.value).startswith("configuration validation failed")
    return raised.value.problems


def test_the_example_is_valid_and_has_its_effect():
    env = {name: f"value-of-{name}" for name in re.findall(r"\$\{(\w+)\}", example_text())}
    env["GW_VALKEY_URL"] = "valkey://:of-no-use@localhost"
    env["GW_ALERT_SECRET"] = "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY="
    settings = parse(example_text(), file="conf/gw.yaml", env=env, data_dir=DATA)
    assert [warning for warning in settings.warnings if "in a fleet" not in warning] == []  # the example has all settings
    assert settings.providers["openai-eu"].type == "openai"
    assert settings.providers["openai"].api_key == Secret("value-of-OPENAI_API_KEY")
    assert settings.models["llm:fast:eu/any"].provider == "openai-eu"
    assert settings.models["llm:openai/gpt-4o-mini"].prices == (
        Price(input_tokens=150_000_000, cached_input_tokens=75_000_000, output_tokens=600_000_000, source="config"),
    )
    assert settings.cost_tracking.db_path == Path("conf/data/gw.db")
    assert settings.serve.tls_cert == Path("conf/tls/cert.pem")
    assert settings.projects["support"].provider_keys == {"groq": Secret("value-of-SUPPORT_GROQ_API_KEY")}
    assert settings.auth.keys[0].project == "support"
    assert settings.voices["alloy"] == {"kokoro": "am_adam", "sim": "tone"}


def test_defaults_are_those_of_the_classes():
    settings = read(BASE)
    assert settings.serve == Serve()
    assert settings.routing == Routing()
    assert settings.auth == Auth()
    assert settings.cost_tracking == CostTracking(db_path=DATA / "gw.db")
    assert settings.path == Path("gw.yaml")
    assert list(settings.models) == ["llm:openai/gpt-4o", "llm:sim/echo", "stt:sim/tone", "tts:sim/tone"]
    assert settings.models["llm:openai/gpt-4o"] == Model(modality="llm", provider="openai", name="gpt-4o")


def test_types_that_no_engine_is_built_for_are_valid():
    read("providers: {deepgram: {api_key: k}}\nmodels: {stt: [deepgram/nova-3]}")


@pytest.mark.parametrize(("text", "hedge"), [("off", "off"), ("auto", "auto"), ("250", 250)])
def test_hedging(text, hedge):
    assert read(BASE + f"routing: {{hedge: {text}}}").routing.hedge == hedge


def test_one_first_event_deadline_leaves_the_others():
    settings = read(BASE + "routing: {first_event_s: {llm: 3}, breaker: {failures: 2}}")
    assert settings.routing.first_event_s == {"stt": 4.0, "llm": 3.0, "tts": 4.0}
    assert settings.routing.breaker == BreakerSettings(failures=2)


def test_ports():
    assert read(BASE).serve.port == 8080
    assert read(BASE, PORT="9000").serve.port == 9000
    assert read(BASE + "serve: {port: 7000}", PORT="9000").serve.port == 7000
    assert read(BASE + "serve: {port: '${P}'}", P="7001").serve.port == 7001
    (problem,) = problems(BASE, PORT="http")
    assert problem.where == "PORT"
    assert "PORT must be a port number" in problem.what


def test_the_database_path():
    text = BASE + "cost_tracking: {db_path: my.db}"
    assert read(text).cost_tracking.db_path == Path("my.db")
    assert read(text, GW_DB_PATH="/x/y.db").cost_tracking.db_path == Path("/x/y.db")


def test_rate_limits_is_another_name():
    assert read(BASE + "rate_limits: {openai: {requests_per_minute: 5}}").rate_limiting == {
        "openai": RateLimit(requests_per_minute=5)
    }
    (problem,) = problems(BASE + "rate_limits: {openai: }\nrate_limiting: {openai: }\n")
    assert (problem.line, problem.column) == (3, 1)
    assert "keep one" in problem.what


PROVIDERS = "providers:\n  openai: {api_key: k}\n  sim:\n"
MODELS = "models:\n  llm: [openai/gpt-4o, sim/echo]\n  stt: [sim/tone]\n"
TWICE = "auth: {keys: [{key: till-8351026789-shop}, {key: till-8351026789-shop}]}\n"
GUARDED = "auth: {admin_token: till-8351026789-shop}\n"
MALFORMED = [
    ("providers:\n  openai:\n    base_ulr: http://x\nmodels:\n", 3, 5, "unknown key 'providers.openai.base_ulr'", "base_url"),
    (PROVIDERS + MODELS + "serve: {max_upload_mb: 9}\n", 7, 9, "unknown key 'serve.max_upload_mb'", "max_body_mb limits every"),
    ("modles:\nproviders:\nmodels:\n", 1, 1, "unknown key 'modles'", "did you mean 'models'?"),
    ("providers:\n  opnai: {api_key: k}\nmodels:\n", 2, 3, "unknown provider type 'opnai'", "did you mean 'openai'?"),
    ("providers:\n  azure: {api_key: k}\nmodels:\n", 2, 3, "a provider of type azure needs base_url", "openai.azure.com/openai/v1"),
    ("providers:\n  x: {type: deepgrm}\nmodels:\n", 2, 13, "unknown provider type 'deepgrm'", "'deepgram'"),
    ("providers:\n  openai: {api_key: }\n  a b: {type: openai}\nmodels:\n", 3, 3, "'a b' cannot be an id", "letters"),
    ("providers:\n  openai: sk-secret-1234567890\nmodels:\n", 2, 11, "must be a mapping, found text", ""),
    ("providers:\n  openai: {base_url: 'ftp://x'}\nmodels:\n", 2, 22, "must be an http:// or https:// address", ""),
    ("providers:\n  openai: {base_url: 'http://a b/v1'}\nmodels:\n", 2, 22, "must be an http:// or https:// address", "ASCII"),
    ("providers:\n  openai: {base_url: 'http://-x.h'}\nmodels:\n", 2, 22, "must be an http:// or https:// address", "DNS"),
    ('providers:\n  openai: {api_key: "sk-a\\nb"}\nmodels:\n', 2, 21, "a character that no credential has", "copy it"),
    ('providers:\n  openai: {api_key: "sk-\\0b"}\nmodels:\n', 2, 21, "a character that no credential has", "copy it"),
    (PROVIDERS + MODELS + 'projects:\n  a: {providers: {openai: "k\\nx"}}\n', 8, 27, "no credential has", "copy it"),
    (PROVIDERS + MODELS + 'auth: {admin_token: "a\\nb"}\n', 7, 21, "auth.admin_token contains a character", "copy it"),
    (PROVIDERS + "models:\n  llm: [groq/x]\n", 5, 9, "'groq' is not in 'providers'", "providers: openai, sim"),
    (PROVIDERS + "models:\n  llm:\n    opneai/x:\n", 6, 5, "'opneai' is not in 'providers'", "did you mean 'openai'"),
    (PROVIDERS + "models:\n  llm:\n    a/b: {provider: groq}\n", 6, 21, "'groq' is not in", "providers: openai, sim"),
    (PROVIDERS + "models:\n  lmm: []\n", 5, 3, "unknown key 'models.lmm'", "did you mean 'llm'?"),
    (PROVIDERS + "models:\n  llm: [gpt-4o]\n", 5, 9, "'gpt-4o' is not a model id", "<provider>/<model>"),
    (PROVIDERS + "models:\n  llm: [sim/echo, sim/echo]\n", 5, 19, "'sim/echo' appears twice in models.llm", ""),
    (PROVIDERS + "models:\n  llm: 5\n", 5, 8, "models.llm must be a mapping, found 5", ""),
    ("providers: {ollama: }\nmodels:\n  tts: [ollama/x]\n", 3, 9, "the type 'ollama' does not offer", "ollama offers llm"),
    (PROVIDERS + MODELS + "stacks:\n  a: {llm: sim/ecko}\n", 8, 12, "unknown llm model 'sim/ecko'", "'sim/echo'"),
    (PROVIDERS + MODELS + "stacks:\n  a: {stt: sim/echo}\n", 8, 12, "unknown stt model 'sim/echo'", "did you mean 'sim/tone'?"),
    (PROVIDERS + MODELS + "fallbacks: {llm: [sim/eco]}\n", 7, 19, "unknown llm model 'sim/eco'", "'sim/echo'"),
    (PROVIDERS + MODELS + "fallbacks: {llm: [sim/echo, sim/echo]}\n", 7, 29, "appears twice", ""),
    (PROVIDERS + MODELS + "projects:\n  a: {default_stack: x}\n", 8, 22, "unknown stack 'x'", "stacks: none"),
    (PROVIDERS + MODELS + "projects:\n  a: {daily_budget: ten}\n", 8, 21, "must be a number, found the text 'ten'", ""),
    (PROVIDERS + MODELS + "projects:\n  a: {daily_budget: -1}\n", 8, 21, "must be a number 0 or more, found -1", ""),
    (PROVIDERS + MODELS + "projects:\n  a: {daily_budget: .inf}\n", 8, 21, "must be a number", ""),
    (PROVIDERS + MODELS + "projects:\n  a: {daily_budget: .nan}\n", 8, 21, "must be a number", ""),
    (PROVIDERS + MODELS + "projects:\n  a: {budget_action: blok}\n", 8, 22, "must be warn or block", "'block'"),
    (PROVIDERS + MODELS + "projects:\n  a: {accent: '#12'}\n", 8, 15, "must be a colour", "#5b7fa6"),
    (PROVIDERS + MODELS + "projects:\n  a: {providers: {grq: k}}\n", 8, 19, "unknown provider 'grq'", "openai, sim"),
    (PROVIDERS + MODELS + "projects:\n  a: {fallbacks: {stt: [x/y]}}\n", 8, 25, "unknown stt model 'x/y'", "sim/tone"),
    (PROVIDERS + MODELS + "rate_limiting: {opena: {}}\n", 7, 17, "unknown provider 'opena'", "'openai'"),
    (PROVIDERS + MODELS + "voices: {alloy: {zzz: tone}}\n", 7, 18, "unknown provider 'zzz'", "providers: openai"),
    (PROVIDERS + MODELS + "serve: {port: 99999}\n", 7, 15, "from 0 to 65535, found 99999", ""),
    (PROVIDERS + MODELS + 'serve: {port: "8080"}\n', 7, 15, "must be a whole number", "without quotes"),
    (PROVIDERS + MODELS + "serve: {tls_cert: a.pem}\n", 7, 19, "serve.tls_cert needs serve.tls_key too", ""),
    (PROVIDERS + MODELS + "serve: {host: 0.0.0.0}\n", 7, 15, "can be reached from other machines", "auth.admin_token"),
    (PROVIDERS + MODELS + "cost_tracking: {durability: disk}\n", 7, 29, "must be crash or power", "choices: crash, power"),
    (PROVIDERS + MODELS + "auth: {keys: [{key: till-8351026789-shop, project: nobody}]}\n", 7, 52, "unknown project 'nobody'", "default"),
    (PROVIDERS + MODELS + TWICE, 7, 50, "the same as that of auth.keys.0", ""),
    (PROVIDERS + MODELS + "auth: {keys: [{project: default}]}\n", 7, 15, "auth.keys.0 needs a key", "key: ${NAME}"),
    (PROVIDERS + MODELS + "auth: {keys: {key: k}}\n", 7, 14, "auth.keys must be a list", ""),
    (PROVIDERS + MODELS + "mcp: {enabled: yess}\n", 7, 16, "must be true or false, found the text 'yess'", ""),
    (PROVIDERS + MODELS + "serve: {host: '::'}\n" + GUARDED + "mcp: {enabled: true}\n", 9, 16, "GW_MCP_TOKEN", "set GW_MCP"),
    ("providers: {sim: {fail_with: sloww}}\nmodels:\n", 1, 30, "must be reset or", "did you mean 'slow'?"),
    ("providers: {sim: {fail_with: 200}}\nmodels:\n", 1, 30, "from 400 to 599", ""),
    ("providers: {openai: {fail_rate: 1}}\nmodels:\n", 1, 22, "unknown key 'providers.openai.fail_rate'", "known keys"),
    ("providers:\n", 1, 1, "the section 'models' is missing", "needs 'providers' and 'models'"),
    ("just text", 1, 1, "must be a mapping, found the text 'just text'", ""),
]


@pytest.mark.parametrize(("text", "line", "column", "what", "hint"), MALFORMED)
def test_one_mistake_is_reported_with_its_place_and_a_way_out(text, line, column, what, hint):
    (problem,) = problems(text)
    assert (problem.file, problem.line, problem.column) == ("gw.yaml", line, column)
    assert what in problem.what
    assert hint in problem.hint
    assert str(problem).startswith(f"gw.yaml:{line}:{column}: ")


def test_duplicate_aliases():
    models = "models:\n  llm:\n    sim/echo: {aliases: [fast]}\n    sim/x: {aliases: [fast, sim/echo, st]}\n"
    reported = problems(PROVIDERS + models + "stacks: {st: {llm: sim/x}}\n")
    assert [(p.line, p.column) for p in reported] == [(7, 23), (7, 29), (7, 39)]
    assert "duplicate alias 'fast'" in reported[0].what
    assert "'sim/echo' already" in reported[0].hint
    assert "name of a stack or model" in reported[1].what


def test_everything_at_once_in_the_order_of_the_file():
    reported = problems(
        "providers:\n  openai: {api_key: '${NOPE}', enabled: maybe}\n  openai: {}\n"
        "models:\n  llm: [opnai/x, openai/gpt-4o]\nserve: {prot: 1, port: -1}\nlatency: {ttfb_warning_ms: 0}\n"
    )
    assert [p.line for p in reported] == [2, 2, 3, 5, 6, 6, 7]
    whats = " | ".join(p.what for p in reported)
    for part in ("NOPE is not set", "true or false", "duplicate key", "'opnai' is not in", "serve.prot", "serve.port"):
        assert part in whats
    assert "more than 0" in whats


CANARY = "c4n4ry-s3cr3t-value"


@pytest.mark.parametrize(
    "text",
    [
        f"providers:\n  openai: {{api_key: {CANARY}, enabled: 5}}\nmodels:\n",
        f"providers:\n  openai: {{api_kye: {CANARY}}}\nmodels:\n",
        f"providers:\n  openai: {CANARY}\nmodels:\n",
        f"providers:\n  openai: {{api_key: [{CANARY}]}}\nmodels:\n",
        f"providers:\n  openai: {{api_key: {{k: {CANARY}}}}}\nmodels:\n",
        f"providers:\n  openai: {{api_key: !{CANARY} x}}\nmodels:\n",
        f"providers:\n  openai: {{api_key: *{CANARY}}}\nmodels:\n",
        f"providers:\n  openai:\n    api_key: '{CANARY}\nmodels:\n",
        f"providers:\n  openai: {{base_url: 'http://me:{CANARY}@host'}}\nmodels:\n",
        BASE + f"projects: {{a: {{providers: {{nobody: {CANARY}}}}}}}\n",
        BASE + f"auth: {{admin_token: {CANARY}, keys: 5}}\n",
        BASE + f"auth: {{keys: [{{key: {CANARY}, porject: a}}]}}\n",
        BASE + f"auth: {{keys: [{CANARY}]}}\n",
    ],
)
def test_no_problem_shows_a_secret(text):
    with pytest.raises(ConfigError) as raised:
        read(text)
    assert CANARY not in str(raised.value)
    assert CANARY not in repr(raised.value)


def test_no_problem_shows_a_value_of_the_environment():
    reported = problems(BASE + "serve: {port: '${P}'}\nmcp: {enabled: '${P}'}\n", P=CANARY)
    assert CANARY not in "".join(str(problem) for problem in reported)


def test_an_empty_variable_counts_as_set_but_empty():
    settings = read("providers: {openai: {api_key: '${K}'}}\nmodels:\n", K="")
    assert not settings.providers["openai"].api_key
    assert settings.warnings == ("gw.yaml:1:13: providers.openai has no api_key: it is not used",)


def test_load_settings(tmp_path):
    path = tmp_path / "gw.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + BASE.encode())
    assert load_settings(path, {"GW_DB_PATH": "/x.db"}).path == path
    path.write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(ConfigError, match=r"gw.yaml:2:4: the file is not UTF-8"):
        load_settings(path, {})
    with pytest.raises(ConfigError, match=r"cannot be read: No such file"):
        load_settings(tmp_path / "gone.yaml", {})


def test_positions_survive_windows_line_ends():
    text = (PROVIDERS + "models:\n  lmm: []\n").replace("\n", "\r\n")
    (problem,) = problems(text)
    assert (problem.line, problem.column, problem.excerpt) == (5, 3, "  lmm: []")
    assert load(text, file="f", env={}).data is not None


def test_a_bare_off_is_the_word(tmp_path):
    """YAML reads it as false."""
    text = "providers: {sim: {}}\nmodels: {llm: [sim/echo]}\nrouting: {hedge: off}\n"
    assert parse(text, file="gw.yaml", env={}, data_dir=tmp_path).routing.hedge == "off"


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ("[{word: Nguyen}]", "needs a word and what to say"),
        ("[{word: '', say: x}]", ""),
        ("[{word: Nguyen, say: win}, {word: NGUYEN, say: wen}]", "'NGUYEN' appears twice for the same language"),
        ("[{word: 'a<b', say: x}]", "word cannot have < or >"),
        ("[{word: a, say: x, ipa: 'a|b'}]", "ipa must have phonemes only"),
        ("[{word: ' a', say: x}]", "word must be at most 100 printable characters"),
        ("[{word: a, say: x, spell: y}]", "unknown key"),
    ],
)
def test_pronunciations_that_cannot_be(entries, problem):
    text = f"providers: {{sim: {{}}}}\nmodels: {{tts: [sim/tone]}}\nprojects: {{shop: {{pronunciations: {entries}}}}}\n"
    with pytest.raises(ConfigError) as caught:
        parse(text, file="gw.yaml", env={}, data_dir=Path("data"))
    assert problem in str(caught.value)


def test_the_same_word_may_be_spoken_differently_in_two_languages():
    entries = "[{word: Paris, say: pariss, language: en}, {word: Paris, say: paree, language: fr}, {word: US, say: x, match_case: true}]"
    text = f"providers: {{sim: {{}}}}\nmodels: {{tts: [sim/tone]}}\nprojects: {{shop: {{pronunciations: {entries}}}}}\n"
    project = parse(text, file="gw.yaml", env={}, data_dir=Path("data")).projects["shop"]
    assert [(entry.word, entry.say, entry.language, entry.match_case) for entry in project.pronunciations] == [
        ("Paris", "pariss", "en", False), ("Paris", "paree", "fr", False), ("US", "x", "", True),
    ]  # fmt: skip
