from hashlib import sha256

import msgspec
import pytest

from gw.admin import keys, logs
from gw.admin.registrar import Deleted
from gw.errors import RequestError, UnknownKeyError, UnknownProjectError
from tests.fakes.records import NOON
from tests.fakes.registrar import BY


async def test_a_key_is_shown_once(registrar, tmp_path):
    made = await keys.create(registrar, {"name": "till", "project": "shop", "expires_at": NOON + 60}, BY)
    key = made.key
    assert key.startswith("gwk_")
    assert len(key) >= 4 + 43
    [entry] = registrar.catalog.keys
    assert (entry.digest, entry.project, entry.expires_at) == (sha256(key.encode()).hexdigest(), "shop", NOON + 60)
    listed = (await keys.listing(registrar, lambda _key, _period: 0)).keys
    assert listed == [keys.KeyEntry(**{k: v for k, v in msgspec.structs.asdict(made).items() if k != "key"})]
    visible = str(listed) + str(await logs.audit_page(registrar.store, limit="9")) + repr(registrar.stored)
    assert key not in visible
    assert not any(key.encode() in p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())


async def test_revoking_takes_two_steps_and_counts_at_once(registrar):
    made = await keys.create(registrar, {}, BY)
    assert made.project == "default"
    preview = await keys.revoke(registrar, made.key_id, confirm=False, by=BY)
    assert preview.would_delete.key_id == made.key_id
    assert len(registrar.catalog.keys) == 1
    assert await keys.revoke(registrar, made.key_id, confirm=True, by=BY) == Deleted(deleted=made.key_id)
    assert registrar.catalog.keys == ()
    with pytest.raises(UnknownKeyError):
        await keys.revoke(registrar, made.key_id, confirm=True, by=BY)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"project": "nobody"}, UnknownProjectError),
        ({"expires_at": NOON - 1}, RequestError),
        ({"expires_at": float("inf")}, RequestError),
        ({"rights": "admin"}, RequestError),
    ],
)
async def test_invalid_bodies_are_refused(registrar, body, error):
    with pytest.raises(error):
        await keys.create(registrar, body, BY)
    assert registrar.stored == {}
