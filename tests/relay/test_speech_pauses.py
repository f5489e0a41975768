"""How far a voice of unknown pace has come with its text, by its pauses. The voices here are as uneven as people's."""

from __future__ import annotations

import random
import struct

import pytest

from gw.relay.speech_pauses import Pauses, letters_spoken
from gw.relay.voice_pace import letters_of
from gw.types.audio import AudioFormat
from gw.wire import wav
from gw.wire.convert import converter

RATE = 8_000
PCM = AudioFormat(encoding="pcm_s16le", sample_rate_hz=RATE)
TEXTS = [
    "Good morning, and thank you for calling the clinic. My name is Anna, and I will help you with your appointment today. "
    "May I have your name, please? After that, we will look for a time that suits you; it takes only a minute.",
    "Sure, I can do that. The next free appointment is on Tuesday at ten in the morning. Would you like me to book it, or do "
    "you prefer the afternoon? We also have a slot on Thursday, right after lunch.",
    "I understand that this is frustrating, and I am sorry for the trouble. Let me check what happened with your order. It "
    "left our warehouse on Monday. The carrier says that it should arrive tomorrow, before noon.",
    "Yes. No problem. That works well, since the office is open until six. Please bring your insurance card, a photo id, and "
    "the letter from your doctor. Is there anything else?",
]


def tone(seconds, loudness=8_000):
    count = int(seconds * RATE)
    return struct.pack(f"<{count}h", *(loudness if n // 40 % 2 else -loudness for n in range(count)))


def silence(seconds):
    return bytes(2 * int(seconds * RATE))


def uneven_speech(text, per_s, chance):
    """Words whose pace varies by 12 %, with stops inside; a tenth of the commas has no pause, some words have one without a mark."""
    pieces, ends = [silence(chance.uniform(0.05, 0.25))], []
    for word in text.split():
        seconds, loudness = (letters_of(word) + 1) / per_s * chance.uniform(0.88, 1.12), chance.randint(4_000, 12_000)
        stop_s = chance.uniform(0.03, 0.08) if len(word) > 4 else 0.0
        pieces += [tone(seconds / 2, loudness), silence(stop_s), tone(max(0.0, seconds / 2 - stop_s), loudness)]
        ends.append(sum(map(len, pieces)) / 2 / RATE)
        if word[-1] in ".?":
            pieces.append(silence(chance.uniform(0.3, 0.7)))
        elif word[-1] in ",;":
            pieces.append(silence(chance.uniform(0.12, 0.3) if chance.random() > 0.1 else 0.0))
        elif chance.random() < 0.06:
            pieces.append(silence(chance.uniform(0.12, 0.2)))
    return b"".join(pieces), ends


def words_in(text, letters):
    """Whole words that so many letters are."""
    covered = 0
    for n, word in enumerate(text.split()):
        covered += letters_of(word)
        if covered > letters + 0.5:
            return n
        covered += 1
    return len(text.split())


def test_an_uneven_voice_of_any_pace_is_followed_to_a_word():
    chance, off = random.Random(5), []
    for per_s in (12, 15, 18, 22):
        for text in TEXTS * 2:
            pcm, ends = uneven_speech(text, per_s, chance)
            pauses, at = Pauses(PCM), 0
            for point in range(1, 16):
                until = len(pcm) * point // 16 // 2 * 2
                pauses.feed(pcm[at:until])
                at = until
                letters = letters_spoken(text, *pauses.all())
                if letters is not None:
                    off.append(words_in(text, letters) - sum(end <= until / 2 / RATE for end in ends))
    assert len(off) > 400
    assert sum(abs(words) <= 1 for words in off) / len(off) > 0.95
    assert sum(words > 1 for words in off) / len(off) < 0.01, "lost"


def test_pauses_are_found_between_words_only():
    pauses = Pauses(PCM)
    pauses.feed(silence(0.2) + tone(0.5) + silence(0.06) + tone(0.5) + silence(0.3))
    speech_s, found = pauses.all()
    assert speech_s == pytest.approx(1.06, abs=0.03)
    assert found == [pytest.approx((1.06, 0.3), abs=0.03)]
    pauses.feed(tone(0.5))
    speech_s, found = pauses.all()
    assert (speech_s, len(found)) == (pytest.approx(1.56, abs=0.03), 1)


@pytest.mark.parametrize("encoding", ["mulaw", "alaw", "pcm_f32le"])
def test_other_samples(encoding):
    fmt = AudioFormat(encoding=encoding, sample_rate_hz=RATE)
    convert = converter(PCM, fmt)
    assert convert is not None
    pauses = Pauses(fmt)
    pauses.feed(convert.feed(tone(0.5) + silence(0.3) + tone(0.5)))
    assert len(pauses.pauses) == 1


def test_a_wav_in_small_pieces():
    data = wav.header(PCM, None) + tone(0.5) + silence(0.3) + tone(0.5)
    pauses = Pauses(AudioFormat(encoding="wav", sample_rate_hz=RATE))
    for at in range(0, len(data), 7):
        pauses.feed(data[at : at + 7])
    assert len(pauses.pauses) == 1
    assert pauses.at_s == pytest.approx(1.3, abs=0.02)


def test_compressed_audio_is_not_heard():
    pauses = Pauses(AudioFormat(encoding="mp3", sample_rate_hz=24_000))
    pauses.feed(bytes(10_000))
    assert (pauses.hears, pauses.all()) == (False, (0.0, []))


def test_without_a_pause_or_a_mark_nothing_is_known():
    assert letters_spoken("One two three, four five.", 1.0, []) is None
    assert letters_spoken("one two three four five", 1.0, [(0.5, 0.3)]) is None
    assert letters_spoken("One two three, four five.", 1.5, [(0.9, 0.3)]) == pytest.approx(13 + 0.6 * 13 / 0.9)
