from __future__ import annotations

import fcntl
import json
import os

import pytest

from gw.cli.backend import DEFAULT_URL, find_url
from gw.cli.config_file import load
from gw.errors import ConfigError

CONFIG = "providers: {sim: }\nmodels: {llm: [sim/echo]}\ncost_tracking: {db_path: gw.db}\n"


@pytest.fixture(autouse=True)
def nothing_configured(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    for name in ("GW_CONFIG", "GW_DB_PATH", "PORT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def held_database(tmp_path):
    """The lock of a running gateway that listens on port 9."""
    (tmp_path / "gw.yaml").write_text(CONFIG)
    (tmp_path / "gw.db.lock").write_text(json.dumps({"pid": 1, "url": "http://127.0.0.1:9"}))
    lock_file = os.open(tmp_path / "gw.db.lock", os.O_RDWR)
    fcntl.flock(lock_file, fcntl.LOCK_EX)
    yield
    os.close(lock_file)


def test_the_file_of_this_folder_is_found(tmp_path):
    (tmp_path / "gw.yaml").write_text(CONFIG)
    assert load(None).cost_tracking.db_path == tmp_path / "gw.db"


def test_a_named_file_goes_first(tmp_path):
    (tmp_path / "gw.yaml").write_text("broken: [")
    (tmp_path / "other.yaml").write_text(CONFIG)
    assert load(tmp_path / "other.yaml").path == tmp_path / "other.yaml"


def test_no_file_is_a_configuration_error():
    with pytest.raises(ConfigError, match="no config file was found"):
        load(None)


@pytest.mark.parametrize("text", [None, "broken: [", CONFIG + "auth: {admin_token: '${NOT_SET}'}\n"])
def test_a_shell_that_cannot_read_the_configuration_knows_no_database(tmp_path, text):
    if text:
        (tmp_path / "gw.yaml").write_text(text)
    assert find_url() == DEFAULT_URL


@pytest.mark.usefixtures("held_database")
def test_the_address_of_the_gateway_that_holds_the_database():
    assert find_url() == "http://127.0.0.1:9"


def test_a_lock_that_nobody_holds_says_nothing(tmp_path):
    (tmp_path / "gw.yaml").write_text(CONFIG)
    (tmp_path / "gw.db.lock").write_text(json.dumps({"pid": 1, "url": "http://127.0.0.1:9"}))
    assert find_url() == DEFAULT_URL
