import msgspec
import pytest
import trio

from gw.admin import logs, models, providers
from gw.admin.registrar import Deleted
from gw.errors import ClientProtocolError, ConflictError, ReadOnlyError, RequestError, UnknownProviderError
from gw.types.entities import Model, StoredProvider
from tests.fakes.answers import as_json
from tests.fakes.registrar import BY, open_registrar

KEY = "sk-canary-0123456789abcdef"
MINE = {"provider_id": "mine", "provider_type": "openai", "api_key": KEY}


async def made(registrar, **fields):
    return await providers.create(registrar, {**MINE, **fields}, BY)


async def entries(registrar):
    return as_json(await logs.audit_page(registrar.store, limit="50"))


async def test_a_provider_is_there_for_the_next_request(registrar):
    answer = await made(registrar)
    assert answer == providers.ProviderCreated(provider_id="mine", source="db", api_key_masked="sk-…cdef")
    entry = registrar.catalog.provider("mine")
    assert (entry.type, entry.source, entry.location, entry.configured) == ("openai", "db", "cloud", True)
    assert entry.api_key.reveal() == KEY
    assert entry.public_only


async def test_the_type_defaults_to_the_id(registrar):
    await providers.create(registrar, {"provider_id": "groq", "api_key": KEY}, BY)
    assert registrar.catalog.provider("groq").type == "groq"
    with pytest.raises(RequestError, match="defaults to the id"):
        await providers.create(registrar, {"provider_id": "my-own"}, BY)


async def test_a_vendor_that_is_a_file_is_a_type_like_any_other(registrar):
    await providers.create(registrar, {"provider_id": "mistral", "api_key": KEY}, BY)
    assert registrar.catalog.provider("mistral").configured
    with pytest.raises(RequestError, match="needs base_url, such as https://RESOURCE") as caught:
        await providers.create(registrar, {"provider_id": "azure", "api_key": KEY}, BY)
    assert caught.value.param == "base_url"
    address = "https://mine.openai.azure.com/openai/v1"
    await providers.create(registrar, {"provider_id": "azure", "api_key": KEY, "base_url": address}, BY)
    assert registrar.catalog.provider("azure").base_url == address
    with pytest.raises(RequestError, match="needs base_url"):
        await providers.update(registrar, "azure", {"base_url": None}, BY)


async def test_a_provider_survives_a_restart(tmp_path):
    async with open_registrar(tmp_path) as first:
        await made(first)
    async with open_registrar(tmp_path) as second:
        assert second.catalog.provider("mine").api_key.reveal() == KEY


async def test_the_key_is_never_stored_in_clear(registrar, tmp_path):
    await made(registrar)
    await providers.update(registrar, "mine", {"api_key": KEY + "x"}, BY)
    await providers.delete(registrar, "mine", confirm=True, cascade=False, by=BY)
    visible = str(await entries(registrar)) + repr(registrar.stored) + repr(registrar.catalog)
    assert KEY not in visible
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes()
    assert [e["changes"].get("api_key") for e in await entries(registrar)] == [
        "(redacted)", {"from": "(redacted)", "to": "(redacted)"}, "(redacted)"
    ]  # fmt: skip


async def test_every_key_is_hidden_from_the_log(registrar):
    await made(registrar)
    assert KEY in registrar._learn.values


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"provider_id": ""}, "provider_id"),
        ({"provider_id": "a/b"}, "provider_id"),
        ({"provider_id": "x" * 65}, "provider_id"),
        ({"provider_id": 7}, "provider_id"),
        ({"provider_type": "nobody"}, "provider_type"),
        ({"api_key": "with space"}, "api_key"),
        ({"api_key": "line\nbreak"}, "api_key"),
        ({"api_key": ["x"]}, "api_key"),
        ({"base_url": "ftp://example.org"}, "base_url"),
        ({"base_url": "https://user:pass@example.org"}, "base_url"),
        ({"base_url": "https://example.org/?a=b"}, "base_url"),
        ({"base_url": "http://169.254.169.254/latest"}, "base_url"),
        ({"base_url": "http://[::ffff:169.254.169.254]/"}, "base_url"),
        ({"base_url": "tcp://example.org:10300"}, "base_url"),
        ({"base_url": "http://127.0.0.1:9"}, "base_url"),
        ({"base_url": "http://localhost"}, "base_url"),
        ({"base_url": "http://10.0.0.1"}, "base_url"),
        ({"base_url": "http://2130706433/"}, "base_url"),
        ({"base_url": "http://0x7f.1/"}, "base_url"),
        ({"surprise": 1}, "surprise"),
    ],
)
async def test_invalid_bodies_are_refused(registrar, fields, param):
    with pytest.raises(RequestError) as caught:
        await made(registrar, **fields)
    assert caught.value.param == param
    assert caught.value.status == 422
    assert registrar.stored == {}
    assert await entries(registrar) == []


async def test_private_addresses_are_for_local_types_and_listed_hosts(registrar):
    await providers.create(registrar, {"provider_id": "ollama", "base_url": "http://127.0.0.1:11434/"}, BY)
    assert registrar.catalog.provider("ollama").base_url == "http://127.0.0.1:11434"
    assert not registrar.catalog.provider("ollama").public_only
    await made(registrar, base_url="http://10.1.2.3/v1")
    assert not registrar.catalog.provider("mine").public_only


@pytest.mark.parametrize("host", ["169.254.169.254", "metadata.google.internal", "[fe80::1]"])
async def test_some_addresses_are_never_called_not_even_by_a_local_provider(registrar, host):
    with pytest.raises(RequestError, match="never called"):
        await providers.create(registrar, {"provider_id": "ollama", "base_url": f"http://{host}"}, BY)


async def test_a_private_address_does_not_stay_when_the_type_becomes_a_cloud_one(registrar):
    await providers.create(registrar, {"provider_id": "mine", "provider_type": "ollama", "base_url": "http://127.0.0.1:9"}, BY)
    with pytest.raises(RequestError, match="private address"):
        await providers.update(registrar, "mine", {"provider_type": "openai", "api_key": KEY}, BY)
    assert registrar.catalog.provider("mine").type == "ollama"


async def test_an_existing_id_is_a_conflict(registrar):
    await made(registrar)
    for taken in ("mine", "sim"):
        with pytest.raises(ConflictError, match="already"):
            await made(registrar, provider_id=taken)


async def test_those_of_the_file_are_read_only(registrar):
    for change in (
        providers.update(registrar, "openai", {"api_key": "x"}, BY),
        providers.delete(registrar, "openai", confirm=True, cascade=True, by=BY),
    ):
        with pytest.raises(ReadOnlyError, match=r"gw\.yaml"):
            await change
    with pytest.raises(UnknownProviderError):
        await providers.update(registrar, "nobody", {}, BY)


async def test_an_update_changes_only_its_fields(registrar):
    await made(registrar)
    updated = await providers.update(registrar, "mine", {"api_key": "sk-new-0123456789"}, BY)
    assert updated == providers.ProviderUpdated(provider_id="mine", updated=True)
    assert registrar.catalog.provider("mine").api_key.reveal() == "sk-new-0123456789"
    await providers.update(registrar, "mine", {"provider_type": "groq", "api_key": KEY}, BY)
    assert registrar.catalog.provider("mine").type == "groq"


async def test_an_update_of_nothing_leaves_no_trace(registrar):
    await made(registrar)
    await providers.update(registrar, "mine", {}, BY)
    assert len(await entries(registrar)) == 1


async def test_a_stored_key_stays_with_its_address(registrar):
    await made(registrar)
    with pytest.raises(ClientProtocolError, match="bound to the present base_url"):
        await providers.update(registrar, "mine", {"base_url": "https://evil.example/v1"}, BY)
    assert registrar.catalog.provider("mine").base_url is None
    await providers.update(registrar, "mine", {"base_url": "https://other.example/v1", "api_key": "sk-other"}, BY)
    assert registrar.catalog.provider("mine").api_key.reveal() == "sk-other"
    await providers.update(registrar, "mine", {"base_url": "https://other.example/v2"}, BY)  # the same host
    assert registrar.catalog.provider("mine").api_key.reveal() == "sk-other"


async def test_a_listed_host_may_have_the_stored_key(registrar):
    await made(registrar)
    await providers.update(registrar, "mine", {"base_url": "https://proxy.inside/v1"}, BY)
    assert registrar.catalog.provider("mine").api_key.reveal() == KEY


async def test_another_type_alone_does_not_move_the_key(registrar):
    """The default address of another type is another place."""
    await made(registrar)
    with pytest.raises(ClientProtocolError):
        await providers.update(registrar, "mine", {"provider_type": "groq"}, BY)


async def test_a_row_of_another_provider_does_not_carry_its_key(registrar):
    """Whoever can write to the database still cannot send a key elsewhere."""
    await made(registrar)
    stored = registrar.stored["provider", "mine"]
    assert isinstance(stored, StoredProvider)
    moved = msgspec.structs.replace(stored, base_url="https://evil.example")
    async with registrar.change(BY) as draft:
        draft.replace_silently(moved)
    entry = registrar.catalog.provider("mine")
    assert not entry.configured
    assert "cannot be decrypted" in entry.key_error


async def test_deleting_takes_two_steps(registrar):
    await made(registrar)
    preview = await providers.delete(registrar, "mine", confirm=False, cascade=False, by=BY)
    assert msgspec.to_builtins(preview) == {"would_delete": {"provider_id": "mine", "models": [], "projects": []}}
    assert "mine" in registrar.catalog.providers
    assert await providers.delete(registrar, "mine", confirm=True, cascade=False, by=BY) == Deleted(deleted="mine")
    assert "mine" not in registrar.catalog.providers


async def test_one_with_models_goes_only_with_them(registrar):
    await made(registrar)
    await models.create(registrar, {"modality": "llm", "provider_id": "mine", "model_name": "a/b"}, BY)
    preview = await providers.delete(registrar, "mine", confirm=False, cascade=False, by=BY)
    assert preview.would_delete.models == ["mine/a/b"]
    with pytest.raises(ConflictError, match="cascade"):
        await providers.delete(registrar, "mine", confirm=True, cascade=False, by=BY)
    await providers.delete(registrar, "mine", confirm=True, cascade=True, by=BY)
    assert "llm:mine/a/b" not in registrar.catalog.models
    assert [(e["action"], e["entity_type"]) for e in await entries(registrar)][:2] == [
        ("delete", "provider"),
        ("delete", "model"),
    ]


async def test_another_type_must_offer_the_modalities_of_the_models(registrar):
    await made(registrar)
    await models.create(registrar, {"modality": "tts", "provider_id": "mine", "model_name": "tts-1"}, BY)
    with pytest.raises(ConflictError, match="offers llm only; delete mine/tts-1 first"):
        await providers.update(registrar, "mine", {"provider_type": "anthropic", "api_key": KEY}, BY)
    assert registrar.catalog.provider("mine").type == "openai"


async def test_of_two_concurrent_deletes_one_fails(registrar):
    await made(registrar)
    heard = []

    async def delete():
        try:
            heard.append(await providers.delete(registrar, "mine", confirm=True, cascade=True, by=BY))
        except UnknownProviderError:
            heard.append("gone")

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(delete)
    assert sorted(map(str, heard)) == ["Deleted(deleted='mine')", "gone"]
    assert [e["action"] for e in await entries(registrar)] == ["delete", "create"]


async def test_ignored_entries_can_still_be_deleted(registrar):
    async with registrar.change(BY) as draft:
        draft.replace_silently(StoredProvider(id="odd", type="hologram"))
        draft.replace_silently(Model(modality="llm", provider="gone", name="m"))
    assert len(registrar.warnings) == 2
    with pytest.raises(RequestError, match="hologram"):
        await providers.update(registrar, "odd", {"api_key": KEY}, BY)
    await providers.delete(registrar, "odd", confirm=True, cascade=False, by=BY)
    await models.delete(registrar, "gone/m", confirm=True, by=BY)
    assert (registrar.stored, registrar.warnings) == ({}, ())


async def test_two_of_one_type_have_their_own_keys(registrar):
    await made(registrar)
    await made(registrar, provider_id="second", api_key="sk-second-0123456")
    keys = [registrar.catalog.provider(name).api_key.reveal() for name in ("openai", "mine", "second")]
    assert keys == ["sk-from-the-file-0123", KEY, "sk-second-0123456"]
