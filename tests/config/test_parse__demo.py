from pathlib import Path

from gw.config.parse import demo_settings


def test_the_demo_needs_nothing():
    settings = demo_settings(Path("/d"))
    assert settings.path is None
    assert settings.warnings == ()
    assert settings.cost_tracking.db_path == Path("/d/gw.db")
    assert settings.providers["sim"].type == "sim"
    assert {"stt:sim/tone", "tts:sim/tone", "llm:sim/echo", "llm:sim/flaky", "llm:sim/scripted"} == set(settings.models)
    assert settings.fallbacks == {"llm": ("sim/flaky", "sim/echo")}
    demo = settings.projects["demo"]
    assert (demo.daily_budget, demo.budget_action, demo.default_stack) == (0.01, "block", "demo")
    assert settings.voices["alloy"] == {"sim": "tone"}
    assert len(settings.voices) == 13
