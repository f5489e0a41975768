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


def test_a_demo_with_a_token_asks_for_it():
    assert not demo_settings(Path("/d")).auth.on
    assert demo_settings(Path("/d"), "till-8351026789-shop").auth.admin_token.reveal() == "till-8351026789-shop"
