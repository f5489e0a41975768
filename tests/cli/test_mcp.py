import sys


def test_the_missing_library_is_named(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)  # as Python marks a module that cannot be imported
    result = run("mcp")
    assert result.exit_code == 1
    assert "gw mcp needs a library that is not installed; install gw with its extra 'mcp': pip install '.[mcp]'" in result.stderr
