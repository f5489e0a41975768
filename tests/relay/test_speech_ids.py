from gw.relay import speech_ids
from gw.relay.speech_ids import SpeechIds


def test_each_project_has_its_own():
    ids = SpeechIds()
    ids.add("one", "a")
    ids.add("two", "b")
    assert ids.own(["one", "two", "three"], "a") == ["one"]


def test_the_oldest_are_forgotten(monkeypatch):
    monkeypatch.setattr(speech_ids, "MOST", 2)
    ids = SpeechIds()
    for id_ in ("one", "two", "three"):
        ids.add(id_, "a")
    assert ids.own(["one", "two", "three"], "a") == ["two", "three"]
