import re
from collections import Counter
from pathlib import Path

import jsonschema
import pytest
import yaml

from docs.config_schema import schema, schema_text
from gw.config.gw_yaml import example_text, general_name, key_names, starter_text
from gw.config.load import load

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
def test_valid_files(text):
    assert [error.message for error in VALIDATOR.iter_errors(yaml.safe_load(text))] == []


def descriptions(shape, path=()):
    """Yield every key of a schema as a dotted path, with names that the user chooses as `*`, and its description."""
    for option in (shape, *shape.get("anyOf", ())):
        for name, below in option.get("properties", {}).items():
            yield ".".join((*path, name)), below.get("description", "")
            yield from descriptions(below, (*path, name))
        for below in (option.get("additionalProperties"), option.get("items")):
            if isinstance(below, dict):
                if below is option.get("additionalProperties"):
                    yield ".".join((*path, "*")), ""
                yield from descriptions(below, (*path, "*"))


def test_it_has_the_settings_of_the_example_and_no_others():
    shown = set(key_names(example_text(), file="example"))
    described = {path for path, _ in descriptions(schema()) if not path.startswith("rate_limits")}
    of_one_modality = {path for path in described if path.startswith(("models.", "routes."))} - shown
    assert described - shown - of_one_modality == set()
    assert shown - described == set()
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
def test_invalid_files(text):
    assert not valid(text)


@pytest.mark.parametrize(
    "text",
    ["serve: {port: '${PORT}', max_body_mb: '${MB}'}", "mcp: {enabled: '${MCP}'}", "cost_tracking: {retention_days: '${DAYS}'}"],
)
def test_numbers_and_switches_may_come_from_the_environment(text):
    assert valid(GOOD + text)


def comments(example):
    """Key, with chosen names as `*`, → the comment beside it, where the key is alone on its line; the first that has one."""
    document = load(example, file="gw.yaml.example", env=None)
    keys_of_line = Counter(line for line, _ in document.key_positions.values())
    comments = {}
    for path, (line, _) in document.key_positions.items():
        comment = re.search(r"\s#\s+(.*)$", document.lines[line - 1])
        if comment is not None and keys_of_line[line] == 1:
            comments.setdefault(re.sub(r"^(models|routes)\.\w+", r"\1", general_name(path)), comment[1].strip(" …"))
    return comments


def test_descriptions_are_the_comments_of_the_example():
    declared = {re.sub(r"^(models|routes)\.\w+", r"\1", path): text for path, text in descriptions(schema()) if text}
    del declared["rate_limits"]
    of_entries = ("providers.*", "models.*")
    shown = {path: text for path, text in comments(example_text()).items() if path not in of_entries}
    assert {path: text for path, text in declared.items() if not path.startswith("rate_limits.")} == shown
    assert schema()["properties"]["serve"]["properties"]["drain_s"]["description"] == shown["serve.drain_s"]
