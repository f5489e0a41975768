from __future__ import annotations

import pytest

from gw.wire.livekit_inference import parse_create


@pytest.mark.parametrize(
    ("named", "in_the_url", "model"),
    [("", "NOT_GIVEN", ""), ("", "auto", ""), ("auto", "dg/nova-3", ""), ("", "dg/nova-3", "dg/nova-3"), ("a/b", "c/d", "a/b")],
)
def test_the_model_of_a_session(named, in_the_url, model):
    member = f'"model":"{named}",' if named else ""
    frame = f'{{"type":"session.create",{member}"settings":{{"sample_rate":"16000","encoding":"pcm_s16le"}}}}'
    assert parse_create(frame, in_the_url)[0].model == model
