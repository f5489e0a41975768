from __future__ import annotations

from gw.cli.voice_client import WIDTH, VoiceCall, waterfall


def _call(modality, model, start, first, end):
    return VoiceCall(modality=modality, model=model, start=start, first=first, end=end)


TURN = [
    _call("stt", "sim/tone", 10.0, 10.25, 10.25),
    _call("llm", "sim/a-longer-name", 10.25, 10.5, 10.75),
    _call("tts", "sim/tone", 10.75, 10.75, 11.0),
]


def test_stages_follow_each_other_on_one_time_line():
    listen, think, speak = waterfall(TURN, blocks=True)
    quarter = WIDTH // 4
    assert listen == f"stt sim/tone           {'░' * quarter}{' ' * 3 * quarter}    250 ms"
    assert think == f"llm sim/a-longer-name  {' ' * quarter}{'░' * quarter}{'█' * quarter}{' ' * quarter}    500 ms"
    assert speak == f"tts sim/tone           {' ' * 3 * quarter}{'█' * quarter}    250 ms"


def test_plain_ascii_where_blocks_cannot_be_shown():
    assert "".join(waterfall(TURN, blocks=False)).isascii()


def test_a_stage_too_short_for_a_column_still_shows():
    tiny = [_call("stt", "a", 0.0, 10.0, 10.0), _call("llm", "b", 10.0, 10.0, 10.0)]
    lines = waterfall(tiny, blocks=True)
    assert [len(line) for line in lines] == [len(lines[0])] * 2
    assert "░" in lines[1]


def test_a_turn_that_took_no_time():
    assert len(waterfall([_call("stt", "a", 1.0, 1.0, 1.0)], blocks=True)) == 1
