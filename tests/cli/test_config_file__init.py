from __future__ import annotations

from gw.config.gw_yaml import example_text, starter_text


def test_writes_the_starter(run, tmp_path):
    result = run("init")
    assert (result.exit_code, result.stdout) == (0, "")
    assert (tmp_path / "gw.yaml").read_text() == starter_text()
    assert "gw check" in result.stderr


def test_an_existing_file_is_kept(run, tmp_path):
    (tmp_path / "gw.yaml").write_text("mine")
    result = run("init")
    assert result.exit_code == 1
    assert "gw.yaml exists; --force overwrites it" in result.stderr
    assert (tmp_path / "gw.yaml").read_text() == "mine"


def test_force_overwrites(run, tmp_path):
    (tmp_path / "gw.yaml").write_text("mine")
    assert run("init", "--force").exit_code == 0
    assert (tmp_path / "gw.yaml").read_text() == starter_text()


def test_stdout_writes_no_file(run, tmp_path):
    result = run("init", "--stdout")
    assert result.stdout == starter_text()
    assert list(tmp_path.iterdir()) == []


def test_diff_of_the_example_itself_is_empty(run, tmp_path):
    (tmp_path / "gw.yaml").write_text(example_text())
    result = run("init", "--diff")
    assert (result.exit_code, result.output) == (0, "")


def test_diff_shows_what_differs(run, tmp_path):
    (tmp_path / "gw.yaml").write_text("providers: {sim: {}}\nmodels: {}\nnever_heard_of: 1\n")
    result = run("init", "--diff")
    assert result.exit_code == 1
    assert "-never_heard_of\n" in result.stdout
    assert "+serve.port\n" in result.stdout


def test_diff_without_a_file(run):
    result = run("init", "--diff")
    assert result.exit_code == 1
    assert "gw.yaml: No such file or directory" in result.stderr


def test_diff_of_what_is_no_yaml_is_a_configuration_error(run, tmp_path):
    (tmp_path / "gw.yaml").write_text("a: b: c")
    assert run("init", "--diff").exit_code == 3
