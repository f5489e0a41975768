import pytest

from gw.config import gw_yaml
from gw.errors import ConfigError


def folders(tmp_path):
    made = [tmp_path / name for name in ("cwd", "user", "system")]
    for folder in made:
        folder.mkdir()
    return made


def test_the_nearest_file_wins(tmp_path):
    cwd, user, system = folders(tmp_path)
    for folder in (system, user, cwd):
        (folder / "gw.yaml").write_text("")
        assert gw_yaml.find_config({}, cwd, user, system) == folder / "gw.yaml"


def test_gw_config_goes_before_all(tmp_path):
    cwd, user, system = folders(tmp_path)
    (cwd / "gw.yaml").write_text("")
    (cwd / "other.yaml").write_text("")
    assert gw_yaml.find_config({"GW_CONFIG": "other.yaml"}, cwd, user, system) == cwd / "other.yaml"
    absolute = str(cwd / "other.yaml")
    assert gw_yaml.find_config({"GW_CONFIG": absolute}, system, user, system) == cwd / "other.yaml"


def test_gw_config_that_is_missing_is_not_replaced_by_another_file(tmp_path):
    cwd, user, system = folders(tmp_path)
    (cwd / "gw.yaml").write_text("")
    with pytest.raises(ConfigError) as raised:
        gw_yaml.find_config({"GW_CONFIG": "gone.yaml"}, cwd, user, system)
    assert raised.value.searched == (f"{cwd / 'gone.yaml'} (from GW_CONFIG)",)


def test_a_missing_file_lists_every_place(tmp_path):
    cwd, user, system = folders(tmp_path)
    (cwd / "gw.yaml").mkdir()
    with pytest.raises(ConfigError, match="no config file was found") as raised:
        gw_yaml.find_config({"GW_CONFIG": ""}, cwd, user, system)
    assert raised.value.searched == tuple(str(f / "gw.yaml") for f in (cwd, user, system))


def test_find_uses_the_given_environment(tmp_path):
    (tmp_path / "gw.yaml").write_text("")
    assert gw_yaml.find({"GW_CONFIG": str(tmp_path / "gw.yaml")}) == tmp_path / "gw.yaml"
    assert gw_yaml.user_config_dir().name == "gw"
    assert gw_yaml.user_data_dir().name == "gw"
