from gw.providers.sim import MODELS, SPEC
from gw.providers.spec import spec_of


def test_the_spec():
    assert spec_of("sim") is SPEC
    assert (SPEC.type, SPEC.location, SPEC.dialect) == ("sim", "local", "sim")
    assert not SPEC.needs_address
    assert SPEC.health_path == ""
    assert set(SPEC.modalities) == {"stt", "llm", "tts"} == set(MODELS)
