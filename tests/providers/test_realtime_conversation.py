import pytest

from gw.providers.realtime_conversation import hears_and_speaks


@pytest.mark.parametrize("model", ["gpt-realtime", "gpt-realtime-2.1-mini", "gpt-4o-realtime-preview-2024-12-17", "qwen-omni-realtime"])
def test_models_that_hear_and_speak_themselves(model):
    assert hears_and_speaks(model)


@pytest.mark.parametrize("model", ["gpt-realtime-whisper", "gpt-realtime-translate", "gpt-4o", "gpt-audio", "whisper-1"])
def test_other_models(model):
    assert not hears_and_speaks(model)
