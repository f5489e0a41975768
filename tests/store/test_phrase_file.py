"""Phrases on the disk: read back as they were, sealed, in place of older ones, and never more than allowed."""

from __future__ import annotations

import os
from pathlib import Path

import apsw
import pytest

from gw.errors import DatabaseUnusable, StoreUnavailable
from gw.policy.phrase_cache import KeptPhrase, Take
from gw.policy.phrase_index import MARK_BYTES
from gw.store.phrase_file import HASHES, PhraseFile, PhraseTotals, phrase_path
from gw.types.audio import PCM_16K
from gw.types.tts import WordTiming
from gw.vault import PhraseCipher

CIPHER = PhraseCipher(os.urandom(32))


def phrase(text="Hello canary.", *, mark=b"a", size=1_000, project="p", model="cartesia/sonic-3", voice="v", takes=1):
    words = (WordTiming(word="Hello", start_s=0.0, end_s=0.3),)
    return KeptPhrase(project, model, voice, text, [Take(PCM_16K, mark * size, words)] * takes, b"voice" * 6, used=3, saved_nusd=7)


@pytest.fixture
def file(tmp_path):
    made = PhraseFile(phrase_path(tmp_path / "gw.db"))
    yield made
    made.close()


def contents(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("gw.db.phrases*"))


def shown(found):
    return (found.project, found.model_id, found.voice, found.text, found.used, found.saved_nusd, [take.audio for take in found.takes],
            found.takes[0].words, found.takes[0].format, found.voice_key)  # fmt: skip


def test_a_phrase_is_read_as_it_was_stored_and_nobody_else_can(file, tmp_path):
    kept = phrase()
    file.add([(b"k", kept)], 1.0, CIPHER)
    assert shown(file.read(b"k", CIPHER)) == shown(kept)
    assert file.read(b"other", CIPHER) is None
    assert (os.stat(tmp_path / "gw.db.phrases").st_mode & 0o777) == 0o600
    assert b"canary" not in contents(tmp_path)
    assert b"a" * 20 not in contents(tmp_path)
    file.add([(b"k", phrase(mark=b"b", takes=2))], 2.0, CIPHER)
    assert [take.audio[:1] for take in file.read(b"k", CIPHER).takes] == [b"b", b"b"]
    assert file.totals.phrases == 1
    other = PhraseCipher(os.urandom(32))
    assert file.read(b"k", other) is None


def test_a_body_in_another_place_cannot_be_read(file, tmp_path):
    file.add([(b"k", phrase()), (b"l", phrase("Bye."))], 1.0, CIPHER)
    with apsw.Connection(str(tmp_path / "gw.db.phrases")) as db:
        db.execute("update phrases set body = (select body from phrases where id = 1)")
    assert file.read(b"k", CIPHER).text == "Hello canary."
    with pytest.raises(StoreUnavailable, match="cannot be decrypted"):
        file.read(b"l", CIPHER)


def test_what_was_not_used_for_longest_is_deleted(file):
    for number in range(10):
        file.add([(b"%d" % number, phrase(str(number)))], float(number), CIPHER)
    size = file.totals.bytes // 10
    file.touch([b"0"], 20.0, CIPHER)
    assert file.evict(4 * size) == 6
    assert [number for number in range(10) if file.read(b"%d" % number, CIPHER)] == [0, 7, 8, 9]
    assert file.totals.phrases == 4
    assert file.totals.bytes <= 4 * size
    assert file.evict(4 * size) == 0


def test_phrases_of_a_project_a_model_or_a_voice_are_deleted(file, tmp_path):
    for number, (project, model, voice) in enumerate([("a", "m", "v"), ("a", "m", "w"), ("b", "m", "v"), ("b", "n", "")]):
        file.add([(b"%d" % number, phrase(project=project, model=model, voice=voice))], 1.0, CIPHER)
    assert file.clear(project="a", voice="w") == 1
    assert file.clear(voice="") == 1
    assert file.clear(model_id="n") == 0
    assert file.clear() == 2
    assert file.totals == PhraseTotals(0, 0)


def test_keys_and_marks_are_listed_and_sizes_survive(file, tmp_path):
    file.add([(b"%d" % number, phrase(f"Text {number}")) for number in range(250)], 1.0, CIPHER)
    found = [row for rows in file.hashes() for row in rows]
    assert {key for key, _ in found} == {CIPHER.hashed(b"%d" % number) for number in range(250)}
    assert {len(marks) // MARK_BYTES for _, marks in found} == {len(phrase("Text 1").marks()), len(phrase("Text 10").marks()),
                                                                len(phrase("Text 100").marks())}  # fmt: skip
    totals = file.totals
    again = PhraseFile(tmp_path / "gw.db.phrases")
    assert again.totals == totals
    again.close()


def test_another_database_is_left_alone(tmp_path):
    path = tmp_path / "gw.db.phrases"
    with apsw.Connection(str(path)) as db:
        db.execute("create table t (x)")
    with pytest.raises(DatabaseUnusable):
        PhraseFile(path)


def test_all_hashes_are_read_in_portions_that_take_no_time(file):
    texts = [f"This is sentence {number}. " + "one more word " * (number % 7) for number in range(250)]
    file.add([(text.encode(), phrase(text)) for text in texts], 1.0, CIPHER)
    portions = list(file.hashes())
    assert sorted(key for rows in portions for key, _ in rows) == sorted(CIPHER.hashed(text.encode()) for text in texts)
    for rows in portions:
        counts = [1 + len(marks) // MARK_BYTES for _, marks in rows]
        assert sum(counts[:-1]) < HASHES
    longest = max(len(phrase(text).marks()) for text in texts)
    assert max(sum(1 + len(marks) // MARK_BYTES for _, marks in rows) for rows in portions) <= HASHES + longest
