from pathlib import Path

import jsonschema
import pytest
import yaml

from gw.config.schema import meanings, schema, schema_text
from gw.config.starter import example_text, key_names, starter_text

PUBLISHED = Path(__file__).parents[2] / "docs" / "gw.schema.json"
VALIDATOR = jsonschema.Draft7Validator(schema())
GOOD = "providers: {sim: {}}\nmodels: {llm: [sim/echo]}\n"


def valid(text):
    return VALIDATOR.is_valid(yaml.safe_load(text))


def test_the_published_one_is_the_present_one():
    assert PUBLISHED.read_text(encoding="utf-8") == schema_text(), "run: uv run nox -s docs -- --write"


def test_it_is_a_schema():
    jsonschema.Draft7Validator.check_schema(schema())


@pytest.mark.parametrize("text", [example_text(), starter_text(), GOOD, "providers:\nmodels:\n"])
def test_what_is_right(text):
    assert [error.message for error in VALIDATOR.iter_errors(yaml.safe_load(text))] == []


def paths(shape, path):
    """Every key of an object, with chosen names as `*`."""
    for option in (shape, *shape.get("anyOf", ())):
        for name, below in option.get("properties", {}).items():
            yield ".".join((*path, name))
            yield from paths(below, (*path, name))
        below = option.get("additionalProperties")
        if isinstance(below, dict):
            yield ".".join((*path, "*"))
            yield from paths(below, (*path, "*"))
        if isinstance(option.get("items"), dict):
            yield from paths(option["items"], (*path, "*"))


def test_it_has_the_settings_of_the_example_and_no_others():
    shown = set(key_names(example_text(), file="example"))
    found = {path for path in paths(schema(), ()) if not path.startswith("rate_limits")}
    of_one_modality = {path for path in found if path.startswith("models.")} - shown
    assert found - shown - of_one_modality == set()
    assert shown - found == set()
    assert {path.split(".", 2)[2] for path in of_one_modality} <= {path.split(".", 2)[2] for path in shown if path.count(".") > 1}


@pytest.mark.parametrize(
    "text",
    [
        "providers: {sim: {}}\n",
        GOOD + "serv: {port: 1}\n",
        GOOD + "serve: {port: 65536}\n",
        GOOD + "serve: {port: eighty}\n",
        GOOD + "serve: {drain: 1}\n",
        GOOD + "projects: {a: {daily_budget: -1}}\n",
        GOOD + "projects: {a: {budget_action: stop}}\n",
        GOOD + "projects: {'a b': {}}\n",
        GOOD + "projects: {a: {accent: red}}\n",
        GOOD + "fallbacks: {llm: sim/echo}\n",
        GOOD + "routing: {first_event_s: {llm: 0}}\n",
        GOOD + "auth: {keys: [{project: a}]}\n",
        "providers: {sim: {}}\nmodels: {llm: [echo]}\n",
        "providers: {a: {type: bank}}\nmodels: {}\n",
        "providers: {a: {type: groq, num_ctx: 1}}\nmodels: {}\n",
        "providers: {a: {type: ollama, num_ctx: 0}}\nmodels: {}\n",
        "providers: {sim: {fail_with: 200}}\nmodels: {}\n",
        "providers: {openai: {base_url: 'ftp://x'}}\nmodels: {}\n",
        "providers: {sim: {}}\nmodels: {llm: {sim/echo: {price: {unit: gallon, usd: 1}}}}\n",
    ],
)
def test_what_is_wrong(text):
    assert not valid(text)


@pytest.mark.parametrize(
    "text",
    ["serve: {port: '${PORT}', max_body_mb: '${MB}'}", "mcp: {enabled: '${MCP}'}", "cost_tracking: {retention_days: '${DAYS}'}"],
)
def test_numbers_and_switches_may_come_from_the_environment(text):
    assert valid(GOOD + text)


def test_meanings_are_the_comments_beside_the_keys():
    found = meanings(example_text())
    assert found["serve.drain_s"] == "how long a stop waits for requests in flight"
    assert found["providers.*.type"] == "default: the id"
    shown = schema()["properties"]["serve"]["properties"]["drain_s"]
    assert shown["description"] == found["serve.drain_s"]
