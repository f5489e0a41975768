"""The address of a conversation, beside that of OpenAI's dialect; the sessions themselves are in `tests/dialects`."""

from __future__ import annotations

import pytest

from gw.net.http1 import Origin, Pool
from gw.providers import gemini_conversation
from gw.providers.spec import Account
from gw.types.conversation import ConverseRequest
from gw.types.secret import Secret
from tests.fakes.hosting import hosted
from tests.fakes.net import FakeNet
from tests.fakes.vendors.gemini import FakeGemini

SETUP = '{"setup":{"model":"models/alias"}}'


@pytest.mark.parametrize("version", ["v1", "v1alpha", "v1beta"])
@pytest.mark.parametrize("base_url", ["http://vendor.test/v1beta/openai", "http://vendor.test/", "http://vendor.test"])
async def test_the_version_is_the_callers(nursery, autojump_clock, base_url, version):
    fake, net = FakeGemini(prefix="/v1beta", api_key="key"), FakeNet(nursery)
    net.hosts["vendor.test", 80] = hosted(fake)
    account = Account(
        provider_id="mine", model="gemini-3.8-live", origin=Origin.parse(base_url), api_key=Secret("key"), pool=Pool(connect=net)
    )
    request = ConverseRequest(model="alias", dialect="gemini", version=version, setup=SETUP)
    async with gemini_conversation.converse(request, account) as session:
        assert b"setupComplete" in (await session.receive() or "")
    (entry,) = fake.ledger
    assert f".{version}." in entry.path
    assert (entry.fields["model"], entry.headers["x-goog-api-key"]) == ("models/gemini-3.8-live", "key")
