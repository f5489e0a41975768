import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gw.admin import fallbacks, keys, models, projects, providers, request_models
from gw.errors import RequestError

KINDS = (
    providers.CreateProvider, providers.UpdateProvider, models.CreateModel,
    models.UpdateModel, projects.CreateProject, projects.UpdateProject,
    keys.CreateKey, fallbacks.SetChain,
)  # fmt: skip
FIELDS = sorted({field for kind in KINDS for field in kind.__struct_fields__} | {"surprise", ""})
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3))


@settings(suppress_health_check=[HealthCheck.too_slow])  # its first texts wait for Hypothesis' own tables on a new machine
@given(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=6))
def test_any_body_is_decoded_or_refused(kind, body):
    try:
        read = request_models.read(body, kind)
    except RequestError:
        return
    given = {name: value for name, value in body.items() if not isinstance(value, dict) and value == value}
    assert {name: getattr(read, name) for name in given} == given


@given(st.text(max_size=80) | st.sampled_from(["a\x00", "\ud800", "x" * 5_000]))
def test_checked_text_can_be_stored(text):
    for check in (
        lambda: request_models.checked_text(text, "name"),
        lambda: request_models.checked_text(text, "description", longest=2_000),
        lambda: models.checked_model_name(text),
        lambda: providers.checked_api_key(text),
        lambda: request_models.checked_id(text, "project_id"),
    ):
        try:
            checked = check()
        except RequestError:
            continue
        assert b"\x00" not in checked.encode()


@given(st.floats() | st.sampled_from([0.0, -0.0, 5e-324, 1e9, math.nan, math.inf, -math.inf]))
def test_a_budget_is_refused_or_fits_and_never_becomes_none_by_rounding(value):
    try:
        nusd = projects.checked_budget(value)
    except RequestError:
        assert not 0 <= value <= 1e9
    else:
        assert 0 <= nusd < 2**63
        assert bool(nusd) == bool(value)


@pytest.mark.parametrize("body", [[], "x", None, 5])
def test_a_body_must_be_an_object(body):
    with pytest.raises(RequestError, match="JSON object"):
        request_models.read(body, keys.CreateKey)


@pytest.mark.parametrize(
    ("kind", "body", "param", "what"),
    [
        (projects.CreateProject, {"projectid": 1}, "projectid", "unknown field 'projectid'; known fields: project_id, "),
        (projects.CreateProject, {}, "project_id", "required"),
        (models.CreateModel, {"modality": "video"}, "modality", "one of stt, llm, tts"),
        (projects.CreateProject, {"project_id": "a", "tags": [1]}, "tags[0]", "Expected 'str'"),
        (projects.CreateProject, {"project_id": "a", "fallbacks": {"llm": "x"}}, "fallbacks[...]", "Expected 'array'"),
    ],
)
def test_the_field_is_named(kind, body, param, what):
    with pytest.raises(RequestError) as caught:
        request_models.read(body, kind)
    assert (caught.value.param, what in caught.value.message) == (param, True), caught.value.message


def test_a_key_in_the_wrong_place_is_not_repeated():
    with pytest.raises(RequestError) as caught:
        request_models.read({"provider_id": "a", "api_key": ["sk-canary-0123456789"]}, providers.CreateProvider)
    assert "canary" not in str(caught.value)
