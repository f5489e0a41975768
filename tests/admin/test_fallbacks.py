import pytest

from gw.admin import fallbacks, models
from gw.errors import RequestError
from tests.fakes.registrar import BY, open_registrar


async def test_a_chain_set_while_running_goes_before_the_files(registrar):
    answer = await fallbacks.put(registrar, "llm", {"models": ["sim/echo"]}, BY)
    assert answer == fallbacks.SetChainAnswer(modality="llm", models=["sim/echo"], source="db")
    assert registrar.catalog.chains["llm"] == ("sim/echo",)
    assert fallbacks.listing(registrar).fallbacks["llm"] == fallbacks.Chain(models=["sim/echo"], source="db")
    again = await fallbacks.reset(registrar, "llm", BY)
    assert (again.modality, again.models, again.source) == ("llm", ["openai/gpt-x", "sim/echo"], "yaml")


async def test_a_chain_survives_a_restart_without_deleted_models(tmp_path):
    async with open_registrar(tmp_path) as first:
        await models.create(first, {"modality": "llm", "provider_id": "sim", "model_name": "scripted"}, BY)
        await fallbacks.put(first, "llm", {"models": ["sim/scripted", "sim/echo"]}, BY)
        await models.delete(first, "sim/scripted", confirm=True, by=BY)
        assert first.catalog.chains["llm"] == ("sim/echo",)
    async with open_registrar(tmp_path) as second:
        assert second.catalog.chains["llm"] == ("sim/echo",)


@pytest.mark.parametrize(
    ("modality", "body", "param"),
    [
        ("video", {"models": []}, "modality"),
        ("llm", {"models": ["sim/tone"]}, "models"),
        ("llm", {"models": ["sim/echo", "sim/echo"]}, "models"),
        ("llm", {"models": "sim/echo"}, "models"),
        ("llm", {}, "models"),
    ],
)
async def test_invalid_bodies_are_refused(registrar, modality, body, param):
    with pytest.raises(RequestError) as caught:
        await fallbacks.put(registrar, modality, body, BY)
    assert caught.value.param == param
