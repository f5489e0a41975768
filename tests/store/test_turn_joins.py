"""A record that is written again, since it has a turn now, gives its row the turn, and counts once."""

from __future__ import annotations

import pytest

from gw.store import first_audio, requests, rollups
from gw.store.latency import MergedBuckets, QueryContext
from gw.store.window_pieces import TimeWindow
from gw.types.usage import HeardSpeech
from tests.fakes.databases import write
from tests.fakes.records import NOON, record

HEARD = (HeardSpeech(request_id="ear", model_id="sim/tone", ended_at=NOON - 1, final_at=NOON - 0.5, audio_seconds=1.0),)
CHAT = {"timestamp": NOON}
VOICE = {"timestamp": NOON + 0.2, "modality": "tts", "model_id": "sim/voice", "ttfb_ms": 100.0}
TURN = {"turn_id": "turn", "session_id": "ear"}


def found(db, request_id):
    stored = requests.find(db, request_id)
    return stored.turn_id, stored.session_id, stored.heard


def waits(db):
    context = QueryContext(db, MergedBuckets(None))
    return {name: one.count for name, one in first_audio.by_name(context, TimeWindow(), "stack", None).items()}


@pytest.mark.parametrize("is_one_batch", [True, False])
def test_a_turn_that_becomes_known_later_is_that_of_the_row(db, is_one_batch):
    first = [record("chat", **CHAT), record("voice", **VOICE)]
    later = [record("chat", heard=HEARD, **CHAT, **TURN), record("voice", earlier=("chat",), **VOICE, **TURN)]
    for batch in ([[*first, *later]] if is_one_batch else [first, later]):
        write(db, batch)
    write(db, later)
    assert found(db, "chat") == ("turn", "ear", HEARD)
    assert found(db, "voice") == ("turn", "ear", ())
    assert waits(db) == {"sim/tone / openai/gpt-x / sim/voice": 1}
    assert rollups.totals(db, None, None).requests == requests.count(db) == 2


def test_a_turn_that_a_row_has_stays(db):
    write(db, [record("chat", turn_id="its own", **CHAT)])
    write(db, [record("chat", **CHAT, **TURN), record("other", project="q", **CHAT)])
    write(db, [record("other", **CHAT, **TURN)])
    assert found(db, "chat") == ("its own", None, ())
    assert found(db, "other") == (None, None, ()), "the row is another project's"
