from __future__ import annotations

import pytest

from gw.config.parse import parse
from gw.errors import CandidateSkipped
from gw.net.http1 import Pool
from gw.policy.learnt_slots import LearntSlots
from gw.registry.merge import build
from gw.relay.endpoints import Endpoints

CONFIG = """
providers:
  openai: {api_key: the-houses-key}
  mine: {type: openai, api_key: k2, base_url: "http://127.0.0.1:9/x/v1/"}
  off: {type: openai, api_key: k3, enabled: false}
  groq: {}
  ollama: {base_url: "http://127.0.0.1:11434"}
  sim: {token_ms: 5}
models: {llm: [openai/m, mine/m, off/m, groq/m, ollama/m, sim/echo]}
projects: {shop: {providers: {openai: the-shops-key, groq: the-shops-groq}}}
"""


@pytest.fixture
def catalog(tmp_path):
    return build(parse(CONFIG, file="gw.yaml", env={}, data_dir=tmp_path))


def get(accounts, catalog, model, project="default"):
    return accounts.get(catalog, catalog.by_modality["llm"][model], catalog.project(project))


@pytest.mark.parametrize(
    ("model", "project", "url", "key"),
    [
        ("openai/m", "default", "https://api.openai.com/v1", "the-houses-key"),
        ("openai/m", "shop", "https://api.openai.com/v1", "the-shops-key"),
        ("groq/m", "shop", "https://api.groq.com/openai/v1", "the-shops-groq"),
        ("mine/m", "shop", "http://127.0.0.1:9/x/v1", "k2"),
        ("ollama/m", "default", "http://127.0.0.1:11434", ""),
    ],
)
def test_where_and_with_which_key(catalog, model, project, url, key):
    provider, spec, account = get(Endpoints(Pool(), lambda provider, model, owner: LearntSlots()), catalog, model, project)
    assert (str(account.origin), account.api_key.reveal(), account.model) == (url, key, "m")
    assert (account.provider_id, spec.type) == (provider.id, provider.type)


@pytest.mark.parametrize(("model", "reason"), [("off/m", "disabled"), ("groq/m", "not_configured")])
def test_who_cannot_be_called_is_passed_over(catalog, model, reason):
    with pytest.raises(CandidateSkipped) as caught:
        get(Endpoints(Pool(), lambda provider, model, owner: LearntSlots()), catalog, model)
    assert (caught.value.reason, caught.value.retryable) == (reason, True)


def test_an_account_is_made_once_per_catalog_and_never_shared_between_keys(catalog):
    accounts = Endpoints(Pool(), lambda provider, model, owner: LearntSlots())
    Endpoints.warm(catalog)
    first = get(accounts, catalog, "openai/m")[2]
    assert get(accounts, catalog, "openai/m")[2] is first
    shop = get(accounts, catalog, "openai/m", "shop")[2]
    assert shop.api_key.reveal() == "the-shops-key"
    assert get(accounts, catalog, "openai/m")[2] is first
    assert get(accounts, catalog, "sim/echo")[2].options["token_ms"] == 5


def test_a_new_catalog_brings_new_accounts(catalog, tmp_path):
    accounts = Endpoints(Pool(), lambda provider, model, owner: LearntSlots())
    get(accounts, catalog, "openai/m")
    changed = build(parse(CONFIG.replace("the-houses-key", "a-new-key"), file="gw.yaml", env={}, data_dir=tmp_path))
    assert get(accounts, changed, "openai/m")[2].api_key.reveal() == "a-new-key"
    assert get(accounts, catalog, "openai/m")[2].api_key.reveal() == "the-houses-key"
