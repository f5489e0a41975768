"""The tone voice, forth and back: clean, noisy, by telephone, cut anywhere, and what is no tone voice at all."""

import math
import random
from array import array

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gw.providers.sim import fsk
from gw.providers.sim.fsk import Done, Partial, Started, ToneDecoder, ToneLost
from gw.wire import g711

RATES = fsk.SAMPLE_RATES_HZ
texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)
brief = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def speech(text, rate=16_000):
    return b"".join(fsk.encode(text, rate))


def silence(seconds, rate=16_000):
    return bytes(2 * round(seconds * rate))


def mapped(pcm, change):
    return array("h", [max(-32768, min(32767, round(change(i, v)))) for i, v in enumerate(array("h", pcm))]).tobytes()


def noisy(pcm, snr_db, seed=1):
    dice = random.Random(seed)
    samples = array("h", pcm)
    loud = [v * v for v in samples if v]
    sigma = math.sqrt(sum(loud) / len(loud) / 10 ** (snr_db / 10))
    return mapped(pcm, lambda _, v: v + dice.gauss(0, sigma))


def texts_of(pcm, rate=16_000):
    return [done.text for done in fsk.decode(pcm, rate)]


@brief
@given(text=texts, rate=st.sampled_from(RATES))
def test_any_text_comes_back(text, rate):
    assert texts_of(speech(text, rate), rate) == [text]


@pytest.mark.parametrize("text", ["a", "Grüß Gott, 東京 👋🏽", " two  blanks ", "line\nbreak\0", "x" * 300])
def test_awkward_texts_come_back(text):
    assert texts_of(speech(text)) == [text]


def test_every_byte_value_is_a_pair_of_tones():
    text = "".join(map(chr, range(1, 256)))
    assert texts_of(speech(text, 8_000), 8_000) == [text]


@brief
@given(before=st.integers(0, 3_000), after=st.integers(0, 3_000), rate=st.sampled_from(RATES))
def test_silence_around_it_and_any_offset_change_nothing(before, after, rate):
    assert texts_of(bytes(2 * before) + speech("Paris", rate) + bytes(2 * after), rate) == ["Paris"]


@pytest.mark.parametrize("rate", RATES)
def test_noise_of_10_db_changes_nothing(rate):
    pcm = silence(0.1, rate) + speech("sunny", rate) + silence(0.1, rate)
    assert texts_of(noisy(pcm, 10, seed=rate), rate) == ["sunny"]


@pytest.mark.parametrize("seed", range(5))
def test_noise_of_3_db_changes_nothing(seed):
    assert texts_of(noisy(silence(0.05) + speech("rain"), 3, seed)) == ["rain"]


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize(
    "there_and_back", [(g711.pcm16_to_mulaw, g711.mulaw_to_pcm16), (g711.pcm16_to_alaw, g711.alaw_to_pcm16)]
)
def test_the_telephone_changes_nothing(rate, there_and_back):
    """To 8 kHz by linear interpolation, G.711, and back up by repeating samples."""
    source = array("h", bytes(2 * 77) + speech("hello, who is there?", rate))
    step = rate // 8_000
    narrow = array("h", [source[i] + (source[i + 1] - source[i]) // 3 for i in range(0, len(source) - 1, step)]).tobytes()
    transcript = there_and_back[1](there_and_back[0](narrow))
    wide = array("h", [v for v in array("h", transcript) for _ in range(step)]).tobytes()
    assert texts_of(transcript, 8_000) == ["hello, who is there?"]
    assert texts_of(wide, rate) == ["hello, who is there?"]


@pytest.mark.parametrize("gain", [0.003, 0.05, 1.0, 20.0, -1.0])
def test_loudness_and_polarity_do_not_matter(gain):
    assert texts_of(mapped(speech("loud or soft"), lambda _, v: v * gain)) == ["loud or soft"]


def test_an_offset_and_a_hum_beside_it_do_not_matter():
    hum = mapped(speech("hum"), lambda i, v: v + 1_000 + 2_000 * math.sin(2 * math.pi * 50 * i / 16_000))
    assert texts_of(hum) == ["hum"]


def test_several_utterances_in_one_stream():
    pcm = silence(0.31) + speech("one") + speech("two") + silence(0.123) + speech("three")
    assert texts_of(pcm) == ["one", "two", "three"]


@brief
@given(st.lists(st.integers(1, 20_000), max_size=30))
def test_pieces_of_any_size_give_the_same_events(sizes):
    pcm = silence(0.03) + speech("cut it") + speech("up")
    decoder = ToneDecoder(16_000)
    events, at = [], 0
    for size in [*sizes, len(pcm)]:
        events += decoder.feed(pcm[at : at + size])
        at += size
    assert [e for e in events if isinstance(e, Done)] == fsk.decode(pcm, 16_000)
    assert sum(isinstance(e, Started) for e in events) == 2


def test_byte_by_byte():
    decoder = ToneDecoder(8_000)
    pcm = speech("ab", 8_000)
    events = [event for i in range(len(pcm)) for event in decoder.feed(pcm[i : i + 1])]
    assert [type(event) for event in events] == [Started, Done]


def test_times_are_those_of_the_audio():
    pcm = silence(0.5) + speech("What now?")
    decoder = ToneDecoder(16_000)
    events = []
    for at in range(0, len(pcm), 640):
        events += decoder.feed(pcm[at : at + 640])
    started, done = events[0], events[-1]
    assert isinstance(started, Started)
    assert isinstance(done, Done)
    assert started.at_s == done.start_s == pytest.approx(0.5, abs=0.001)
    assert done.end_s == pytest.approx(0.5 + fsk.duration_s("What now?") - fsk.SYMBOL_S, abs=0.001)


def test_partials_grow_by_whole_words_before_the_end():
    text = "It is sunny in Paris."
    pcm = speech(text)
    decoder = ToneDecoder(16_000)
    events = []
    for at in range(0, len(pcm), 640):
        events += decoder.feed(pcm[at : at + 640])
    partials = [e.text for e in events if isinstance(e, Partial)]
    assert partials == ["It", "It is", "It is sunny", "It is sunny in"]
    assert events[-1].text == text


def test_partials_come_without_blanks_too():
    text = "東京は今日も晴れています。明日は雨が降るでしょう。"
    partials = []
    decoder = ToneDecoder(16_000)
    pcm = speech(text)
    for at in range(0, len(pcm), 640):
        partials += [e.text for e in decoder.feed(pcm[at : at + 640]) if isinstance(e, Partial)]
    assert partials
    assert all(text.startswith(p) for p in partials)


def test_one_piece_of_audio_makes_one_partial_at_most():
    events = ToneDecoder(16_000).feed(speech("a b c d e f g h"))
    assert [type(e) for e in events] == [Started, Partial, Done]


def test_first_audio_does_not_wait_for_the_rest():
    pieces = fsk.encode("x" * 60_000, 24_000)
    assert len(next(pieces)) == 4 * 2 * 480


@given(text=texts, rate=st.sampled_from(RATES))
@brief
def test_the_duration_is_known_beforehand(text, rate):
    assert len(speech(text, rate)) == round(fsk.duration_s(text) * rate) * 2


def test_the_empty_text_makes_no_sound():
    assert list(fsk.encode("", 16_000)) == []
    assert fsk.duration_s("") == 0.0


def test_a_lone_surrogate_is_spoken_as_a_question_mark():
    assert texts_of(speech("a\ud800")) == ["a?"]


def test_too_long_a_text_is_an_error():
    with pytest.raises(ValueError, match="65535"):
        fsk.encode("é" * 32_768, 16_000)


@pytest.mark.parametrize("rate", [0, 11_025, 22_050, 44_100])
def test_other_rates_are_refused_naming_the_supported_ones(rate):
    with pytest.raises(ValueError, match="8000, 16000, 24000"):
        fsk.encode("x", rate)
    with pytest.raises(ValueError, match="8000, 16000, 24000"):
        ToneDecoder(rate)


def test_word_times():
    spans = fsk.word_spans(" two  words")
    assert [word for word, _, _ in spans] == ["two", "words"]
    assert spans[0][1] == pytest.approx(0.2 + 0.04)
    assert spans[0][2] == pytest.approx(0.2 + 0.16)
    assert spans[1][2] == pytest.approx(fsk.duration_s(" two  words") - 0.1)


# --- what must not become text ----------------------------------------------------------------------------------------


def voiced(rate, seconds, seed):
    """Something like speech: a gliding pitch with harmonics under moving formants, with pauses and hiss."""
    dice = random.Random(seed)
    phase, samples = 0.0, array("h")
    for i in range(int(rate * seconds)):
        t = i / rate
        pitch = 120 + 40 * math.sin(2 * math.pi * 1.3 * t)
        phase += 2 * math.pi * pitch / rate
        formant = 700 + 500 * math.sin(2 * math.pi * 2.1 * t)
        value = sum(math.sin(k * phase) / (1 + ((k * pitch - formant) / 300) ** 2) for k in range(1, 12))
        samples.append(round(3_000 * value * (math.sin(2 * math.pi * 3 * t) > -0.5) + dice.gauss(0, 60)))
    return samples.tobytes()


def only(events, *kinds):
    return all(isinstance(e, kinds) for e in events)


def test_silence_is_nothing():
    assert ToneDecoder(16_000).feed(silence(2)) == []


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_nothing(seed):
    dice = random.Random(seed)
    pcm = array("h", [round(dice.gauss(0, 4_000)) for _ in range(16_000)]).tobytes()
    assert ToneDecoder(8_000).feed(pcm) == []


def test_something_like_speech_is_nothing():
    assert ToneDecoder(8_000).feed(voiced(8_000, 0.6, 4)) == []


@pytest.mark.parametrize("hz", [440, 550, 1_000, 3_100])
def test_a_whistle_is_no_text(hz):
    pcm = mapped(silence(1), lambda i, _: 9_000 * math.sin(2 * math.pi * hz * i / 16_000))
    assert fsk.decode(pcm, 16_000) == []


@brief
@given(st.binary(min_size=100, max_size=8_000))
def test_any_bytes_are_no_text(data):
    assert fsk.decode(data, 16_000) == []


@brief
@given(at=st.integers(0, 50), to=st.integers(0, 15))
def test_a_wrong_symbol_never_gives_a_false_text(at, to):
    text = "It is exactly so."
    pcm = bytearray(speech(text, 8_000))
    table = speech("\x01\x23\x45\x67", 8_000)   # data symbols 0 to 7, and what frames hold beside
    start = 2 * 160 * (4 + at)
    source = 2 * 160 * (10 + to % 8)
    pcm[start : start + 320] = table[source : source + 320]
    assert texts_of(bytes(pcm), 8_000) in ([text], [])


@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
def test_an_utterance_that_breaks_off_is_lost_and_the_next_is_decoded(share):
    broken = speech("this will not be finished")
    broken = broken[: int(len(broken) * share) & ~1]
    events = ToneDecoder(16_000).feed(broken + silence(0.3) + speech("next"))
    assert [e.text for e in events if isinstance(e, Done)] == ["next"]
    assert sum(isinstance(e, ToneLost) for e in events) == 1


def test_an_utterance_cut_off_by_another_is_lost_and_the_other_decoded():
    first = speech("this one is interrupted")
    assert texts_of(first[: (len(first) // 2) & ~1] + speech("by this one")) == ["by this one"]


@pytest.mark.parametrize("missing_ms", [7, 20, 33, 100])
def test_lost_samples_cost_that_utterance_only(missing_ms):
    first = speech("packets are lost here")
    middle, hole = len(first) // 4 * 2, 32 * missing_ms
    damaged = first[:middle] + first[middle + hole :]
    *damaged_texts, last = texts_of(damaged + speech("fine again"))
    assert last == "fine again"
    assert damaged_texts in ([], ["packets are lost here"])   # a slip of some ms is survived


def test_invalid_utf8_is_lost():
    pcm = b"".join(fsk._pieces(b"\xff\xfe", fsk._symbol_table(16_000)))
    events = ToneDecoder(16_000).feed(pcm)
    assert [type(e) for e in events] == [Started, ToneLost]


def test_a_decoder_forgets_old_audio():
    decoder = ToneDecoder(8_000)
    for _ in range(50):
        decoder.feed(silence(0.5, 8_000))
        decoder.feed(speech("again", 8_000))
    assert len(decoder._samples) < 2 * 8_000
