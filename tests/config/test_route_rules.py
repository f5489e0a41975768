from __future__ import annotations

from pathlib import Path

import pytest

from gw.config.parse import parse
from gw.errors import ConfigError

TEXT = """providers: {sim: {}}
models: {tts: {sim/tone: {aliases: [beep]}}, llm: [sim/echo]}
stacks: {voice: {llm: sim/echo, tts: desk}}
routes:
"""
DESK = "  tts: {desk: {models: [sim/tone]}}\n"


def problems(text):
    with pytest.raises(ConfigError) as caught:
        parse(TEXT + text, file="gw.yaml", env={}, data_dir=Path())
    return [f"{p.line}:{p.column} {p.what}" + (f" ({p.hint})" if p.hint else "") for p in caught.value.problems]


def test_a_route_as_a_list_and_with_options():
    text = "  tts: {desk: {models: [sim/tone, {model: sim/tone, voice: v, weight: 3}]}}\n"
    (route,) = parse(TEXT + text, file="gw.yaml", env={}, data_dir=Path()).routes["tts"].values()
    assert [(m.model, m.voice, m.weight) for m in route.models] == [("sim/tone", "", 1), ("sim/tone", "v", 3)]
    assert (route.name, route.prefer) == ("desk", "weight")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  llm: {a: {}}\n", "6:9 the route 'a' has no models (models: [<provider>/<model>, …])"),
        ("  llm: {a: {models: [sim/ecco]}}\n", "6:22 unknown llm model 'sim/ecco' (did you mean 'sim/echo'?)"),
        ("  llm: {a: {models: [{model: sim/ecco}]}}\n", "6:30 unknown llm model 'sim/ecco' (did you mean 'sim/echo'?)"),
        ("  llm: {a: {models: [{weight: 3}]}}\n", "6:22 routes.llm.a.models.0 needs a model ({model: <provider>/<model>, weight: 5})"),
        ("  llm: {a: {models: [{model: sim/echo, wait: 3}]}}\n", "6:40 unknown key 'routes.llm.a.models.0.wait' (did you mean 'weight'?)"),
        ("  llm: {a: {models: [{model: sim/echo, voice: v}]}}\n", "6:40 a route of llm models takes no voice"),
        ("  llm: {a: {models: [sim/echo, sim/echo]}}\n", "6:32 'sim/echo' is in the route 'a' already (give it one weight)"),
        ("  llm: {a: {models: [{model: sim/echo, weight: 0}]}}\n", "6:13 the route 'a' has no model with a weight above 0"),
        ("  llm: {voice: {models: [sim/echo]}}\n", "6:9 the route 'voice' is the name of a stack already"),
        ("  llm: {'a b': {models: [sim/echo]}}\n", "6:9 'a b' cannot be the name of a route (use up to 128 printable "
         "characters without spaces, as in a model's name)"),
        ("  llm: {a: {prefer: cost, models: [{model: sim/echo, weight: 2}]}}\n", "6:54 a weight has no effect with prefer: cost "
         "(remove it; 0 is for a model that is used only when the others fail)"),
        ("  llm: {a: {prefer: speed, models: [sim/echo]}}\n", "6:21 routes.llm.a.prefer must be weight or latency or cost, found the "
         "text 'speed' (choices: weight, latency, cost)"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_reported_with_its_line(text, expected):
    assert expected in problems(DESK + text)


def test_a_route_cannot_have_the_name_of_an_alias():
    assert problems("  tts: {desk: {models: [sim/tone]}, beep: {models: [sim/tone]}}\n") == [
        "5:37 the route 'beep' is an alias of 'sim/tone' already"
    ]
