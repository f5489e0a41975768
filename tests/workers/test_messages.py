import msgspec

from gw.config.parse import parse
from gw.registry.merge import build
from gw.types.secret import Secret
from gw.workers.messages import WorkerConfig, pack_config, unpack_config

TEXT = """
providers: {openai: {api_key: sk-canary-0123456789}}
models: {llm: [openai/m]}
projects: {shop: {daily_budget: 1, providers: {openai: sk-other-0123456789}}}
auth: {admin_token: b7d1f3a95c2e4860, keys: [{key: 9f27c1d86ab340e5, project: shop}]}
"""


def test_settings_and_catalog_arrive_whole_with_their_keys(tmp_path):
    settings = parse(TEXT, file="gw.yaml", env={}, data_dir=tmp_path)
    config = WorkerConfig(settings=settings, catalog=build(settings), rates=())
    arrived = unpack_config(pack_config(config))
    assert arrived == config
    assert arrived.settings.providers["openai"].api_key == Secret("sk-canary-0123456789")
    assert arrived.catalog.by_modality["llm"]["openai/m"] == config.catalog.by_modality["llm"]["openai/m"]
    assert msgspec.structs.asdict(arrived.settings.auth) == msgspec.structs.asdict(settings.auth)
