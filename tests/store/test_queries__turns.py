from __future__ import annotations

import msgspec

from gw.store import queries, requests
from gw.store.latency import MergedBuckets, QueryContext
from gw.types.usage import HeardSpeech
from tests.fakes.databases import write
from tests.fakes.records import NOON, record

HEARD = HeardSpeech(
    request_id="ears", model_id="a/b", ended_at=NOON - 0.5, final_at=NOON - 0.25, audio_seconds=2.0, cost_nusd=None
)


def test_what_was_heard_is_kept_with_the_record(db):
    written = record("think", heard=(HEARD, msgspec.structs.replace(HEARD, request_id="other", cost_nusd=5)))
    write(db, [written, record("plain")])
    assert requests.find(db, "think") == written
    matches = requests.find(db, "plain")
    assert matches is not None
    assert matches.heard == ()


def test_earlier_records_get_the_turn_that_was_found(db):
    write(db, [record("listen")])
    write(db, [record("think"), record("speak", turn_id="t", session_id="s", earlier=("listen", "think", "unknown"))])
    turn = queries.turn(QueryContext(db, MergedBuckets(None)), "t", project=None, session_id="s")
    assert turn is not None
    assert [one.id for one in turn.requests] == ["listen", "think", "speak"]
    assert [one.turn_id for one in queries.newest_turns(QueryContext(db, MergedBuckets(None)), 5, None, queries.ANY_TURN)] == ["t"]


def test_ids_that_are_there_stand(db):
    write(db, [record("named", turn_id="mine"), record("called", session_id="call")])
    others = record("others", project="other")
    write(db, [others, record("speak", turn_id="t", session_id="s", earlier=("named", "called", "others"))])
    matches = {name: requests.find(db, name) for name in ("named", "called", "others")}
    assert {name: (one.turn_id, one.session_id) for name, one in matches.items() if one} == {
        "named": ("mine", None),
        "called": ("t", "call"),
        "others": (None, None),
    }


def test_writing_it_again_changes_nothing(db):
    batch = [record("listen"), record("think", turn_id="t", earlier=("listen",))]
    assert [write(db, batch), write(db, batch)] == [2, 0]
    assert queries.turn(QueryContext(db, MergedBuckets(None)), "t", project=None, session_id=None) is not None
