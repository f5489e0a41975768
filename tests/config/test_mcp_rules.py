import sys

import attrs
import msgspec
import pytest

from gw.admin.config_check import findings_of
from gw.config.mcp_rules import check_mcp, mcp_missing
from gw.config.parse import parse
from gw.config.settings import Settings
from gw.errors import ConfigError

TEXT = "providers: {sim: }\nmodels: {llm: [sim/echo]}\nmcp: {enabled: true}\n"
INSTALL = "install gw with its extra 'mcp': pip install '.[mcp]' in a checkout"


@pytest.fixture
def settings(tmp_path) -> Settings:
    return parse(TEXT, file="gw.yaml", env={}, data_dir=tmp_path)


@pytest.fixture
def _without_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)  # as Python marks a module that cannot be imported


def test_nothing_is_missing_here(settings):
    assert mcp_missing() == ""
    check_mcp(settings, "127.0.0.1")


@pytest.mark.usefixtures("_without_library")
def test_the_library_is_named_with_the_setting_that_needs_it(settings):
    with pytest.raises(ConfigError) as raised:
        check_mcp(settings, "127.0.0.1")
    assert f"gw.yaml:3:1: mcp.enabled needs a library that is not installed; {INSTALL}" in str(raised.value)
    check_mcp(attrs.evolve(settings, mcp=msgspec.structs.replace(settings.mcp, enabled=False)), "127.0.0.1")
    [finding] = [each for each in findings_of(settings) if each.subject == "mcp.enabled"]
    assert (finding.result, INSTALL in finding.detail) == ("failed", True)
