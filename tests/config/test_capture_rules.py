"""Phrases are kept on the disk only where they can be encrypted, and by one process."""

from __future__ import annotations

import pytest

from gw.config.capture_rules import check_capture
from gw.config.parse import parse
from gw.errors import ConfigError


def settings(tmp_path, more="", secret="a long secret that nobody knows"):
    text = f"providers: {{}}\nmodels: {{}}\nrouting: {{phrase_cache_disk_mb: 10}}\n{more}"
    return parse(text, file="gw.yaml", env={"GW_SECRET": secret}, data_dir=tmp_path)


def test_phrases_on_the_disk_need_a_secret_and_one_process(tmp_path):
    check_capture(settings(tmp_path))
    for made, what in ((settings(tmp_path, secret=""), "GW_SECRET"), (settings(tmp_path, "serve: {workers: 2}"), "serve.workers")):
        with pytest.raises(ConfigError) as raised:
            check_capture(made)
        (problem,) = raised.value.problems
        assert (problem.where, problem.line) == ("routing.phrase_cache_disk_mb", 3)
        assert what in problem.what


def test_phrases_in_a_fleet_that_were_wished_for_need_a_secret(tmp_path):
    def in_fleet(text, secret):
        text = f"providers: {{}}\nmodels: {{}}\nfleet: {{valkey: 'valkey://127.0.0.1:1'{text}}}\n"
        return parse(text, file="gw.yaml", env={"GW_SECRET": secret}, data_dir=tmp_path)

    check_capture(in_fleet("", ""))  # by default they are shared where that can be
    check_capture(in_fleet(", phrase_cache_mb: 0", ""))
    check_capture(in_fleet(", phrase_cache_mb: 5", "a long secret that nobody knows"))
    with pytest.raises(ConfigError) as raised:
        check_capture(in_fleet(", phrase_cache_mb: 5", ""))
    (problem,) = raised.value.problems
    assert (problem.where, problem.line) == ("fleet.phrase_cache_mb", 3)
