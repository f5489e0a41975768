import msgspec
import pytest

from gw.admin import listings, logs, models, providers
from gw.admin.registrar import Deleted
from gw.errors import ConflictError, ReadOnlyError, RequestError, UnknownModelError, UnknownProviderError
from tests.fakes.answers import as_json
from tests.fakes.registrar import BY

MODEL = {"modality": "llm", "provider_id": "sim", "model_name": "scripted"}


async def test_a_model_is_there_for_the_next_request(registrar):
    answer = await models.create(registrar, {**MODEL, "display_name": "S", "default_language": "de"}, BY)
    assert answer == models.ModelCreated(model_id="sim/scripted", source="db", created=True)
    entry = registrar.catalog.models["llm:sim/scripted"]
    assert (entry.source, entry.display_name, entry.default_language) == ("db", "S", "de")


async def test_a_name_may_hold_slashes(registrar):
    await models.create(registrar, {**MODEL, "model_name": "openai/gpt-oss-20b"}, BY)
    deleted = await models.delete(registrar, "sim/openai/gpt-oss-20b", confirm=True, by=BY)
    assert deleted == Deleted(deleted="sim/openai/gpt-oss-20b")
    assert "llm:sim/openai/gpt-oss-20b" not in registrar.catalog.models


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"modality": "video"}, "modality"),
        ({"modality": None}, "modality"),
        ({"model_name": ""}, "model_name"),
        ({"model_name": " a"}, "model_name"),
        ({"model_name": "a\nb"}, "model_name"),
        ({"display_name": "x" * 300}, "display_name"),
        ({"display_name": "\x00"}, "display_name"),
        ({"price": 1}, "price"),
    ],
)
async def test_invalid_bodies_are_refused(registrar, fields, param):
    with pytest.raises(RequestError) as caught:
        await models.create(registrar, {**MODEL, **fields}, BY)
    assert caught.value.param == param


@pytest.mark.parametrize("missing", ["modality", "provider_id", "model_name"])
async def test_missing_fields_are_named(registrar, missing):
    with pytest.raises(RequestError, match=f"'{missing}' is required"):
        await models.create(registrar, {k: v for k, v in MODEL.items() if k != missing}, BY)


async def test_its_provider_must_be_there_and_offer_it(registrar):
    with pytest.raises(UnknownProviderError, match="available: sim, openai"):
        await models.create(registrar, {**MODEL, "provider_id": "nobody"}, BY)
    await providers.create(registrar, {"provider_id": "anthropic", "api_key": "sk-1"}, BY)
    with pytest.raises(RequestError, match="offers llm"):
        await models.create(registrar, {**MODEL, "provider_id": "anthropic", "modality": "stt"}, BY)


async def test_an_existing_id_is_a_conflict(registrar):
    await models.create(registrar, MODEL, BY)
    for taken in (MODEL, {**MODEL, "model_name": "echo"}):
        with pytest.raises(ConflictError, match="already"):
            await models.create(registrar, taken, BY)


async def test_one_id_for_two_modalities(registrar):
    await models.create(registrar, {**MODEL, "modality": "stt"}, BY)
    await models.create(registrar, {**MODEL, "modality": "tts"}, BY)
    await models.update(registrar, "sim/scripted", {"display_name": "Both"}, BY)
    names = [registrar.catalog.models[f"{m}:sim/scripted"].display_name for m in ("stt", "tts")]
    assert names == ["Both", "Both"]
    await models.delete(registrar, "sim/scripted", confirm=True, by=BY)
    assert not [m for m in registrar.catalog.models.values() if m.id == "sim/scripted"]


async def test_a_wildcard_is_created_and_deleted_like_a_model(registrar):
    body = {"modality": "llm", "provider_id": "openai", "model_name": "*", "default_language": "de"}
    assert (await models.create(registrar, body, BY)).model_id == "openai/*"
    found = registrar.catalog.find("openai/gpt-next", "llm")
    assert (found.name, found.default_language) == ("gpt-next", "de")
    with pytest.raises(RequestError, match="stands for any name") as caught:
        await models.update(registrar, "openai/*", {"display_name": "All"}, BY)
    assert caught.value.param == "display_name"
    await models.delete(registrar, "openai/*", confirm=True, by=BY)
    assert registrar.catalog.find("openai/gpt-next", "llm") is None
    with pytest.raises(RequestError, match="takes no price"):
        await models.create(registrar, {**body, "price": {"unit": "1M_tokens", "input": 1, "output": 1}}, BY)


async def test_deleting_takes_two_steps(registrar):
    await models.create(registrar, MODEL, BY)
    preview = await models.delete(registrar, "sim/scripted", confirm=False, by=BY)
    assert msgspec.to_builtins(preview) == {"would_delete": {"model_id": "sim/scripted"}}
    assert "llm:sim/scripted" in registrar.catalog.models


async def test_those_of_the_file_are_read_only(registrar):
    for change in (
        models.update(registrar, "sim/echo", {"display_name": "x"}, BY),
        models.delete(registrar, "sim/echo", confirm=False, by=BY),
    ):
        with pytest.raises(ReadOnlyError):
            await change
    with pytest.raises(UnknownModelError, match="sim/echo"):
        await models.delete(registrar, "sim/nothing", confirm=True, by=BY)


async def test_the_audit_log_has_the_changed_fields(registrar):
    await models.create(registrar, MODEL, BY)
    await models.update(registrar, "sim/scripted", {"default_voice": "v", "display_name": None}, BY)
    newest, *_ = as_json(await logs.audit_page(registrar.store, limit="1"))
    assert (newest["entity_id"], newest["action"]) == ("sim/scripted", "update")
    assert newest["changes"] == {"default_voice": {"from": None, "to": "v"}}


PRICE = {"unit": "1M_tokens", "input": 2.5, "output": 10}


async def test_a_price_is_that_of_the_next_request(registrar):
    dimensions = {"above": [{"tokens": 272_000, "input": 5}], "tiers": {"flex": {"input": 1.25, "output": 5}}}
    await models.create(registrar, {**MODEL, "price": PRICE | dimensions}, BY)
    [price] = registrar.catalog.models["llm:sim/scripted"].prices
    assert (price.input_tokens, price.output_tokens, price.source) == (2_500_000_000, 10_000_000_000, "api")
    assert price.above[0][0] == 272_000
    assert price.tiers["flex"].input_tokens == 1_250_000_000
    shown = listings.model(registrar.catalog, "sim/scripted", 0.0)
    assert shown.prices[0].startswith("input 2.5, output 10 per 1M tokens")


async def test_a_price_may_hold_from_a_day_on(registrar):
    await models.create(registrar, {**MODEL, "price": PRICE}, BY)
    model = "llm:sim/scripted"
    later = {"unit": "1M_tokens", "input": 3, "output": 10, "valid_from": "2026-12-01"}
    await models.update(registrar, "sim/scripted", {"price": later}, BY)
    entry = registrar.catalog.models[model]
    assert [entry.price(day).input_tokens for day in (0, 20_787, 20_788)] == [2_500_000_000, 2_500_000_000, 3_000_000_000]
    await models.update(registrar, "sim/scripted", {"price": later | {"input": 4}}, BY)
    assert [price.input_tokens for price in registrar.catalog.models[model].prices] == [2_500_000_000, 4_000_000_000]
    await models.update(registrar, "sim/scripted", {"display_name": "S"}, BY)
    assert len(registrar.catalog.models[model].prices) == 2, "a change of something else leaves them"
    await models.update(registrar, "sim/scripted", {"price": PRICE}, BY)
    assert len(registrar.catalog.models[model].prices) == 1, "one without a day replaces all"
    await models.update(registrar, "sim/scripted", {"price": None}, BY)
    assert registrar.catalog.models[model].prices == ()


@pytest.mark.parametrize(
    ("price", "what"),
    [
        ({"unit": "gallon", "usd": 1}, "unknown unit 'gallon'"),
        ({"unit": "minute"}, "needs usd"),
        ({"unit": "minute", "usd": -1}, "0 or more"),
        ({"unit": "minute", "usd": 1, "valid_from": "soon"}, "valid_from must be a date"),
        ({"unit": "1M_tokens", "input": 1, "above": [{"tokens": 0.5, "input": 1}]}, "its own number of tokens"),
        ({"unit": "1M_tokens", "inptu": 1}, "unknown field 'inptu'"),
    ],
)
async def test_a_price_that_is_none_is_refused(registrar, price, what):
    with pytest.raises(RequestError, match=what):
        await models.create(registrar, {**MODEL, "price": price}, BY)
