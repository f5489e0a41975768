from __future__ import annotations

import pytest

from gw.pricing.book import Price, PriceBook
from gw.relay.speech_progress import SpeechProgress, SpokenText
from gw.relay.waste import NO_WASTE, Waste, played_part, sent_part, waste_of
from gw.types.usage import Cost, Usage

TEXT = "one two three four five six seven eight nine ten"


def progress(text=TEXT, flushed=()):
    script = SpokenText()
    script.add(text)
    script.flushes = list(flushed)
    return SpeechProgress(script)


def per_character(usage):
    return Cost(nusd=usage.characters * 7, source="config")


def test_words_count_when_their_end_was_played():
    made = progress()
    for n, word in enumerate(TEXT.split()):
        made.word(word, (n + 1) * 0.3)
    assert [made.offset_at(at_s, len(TEXT), complete=False) for at_s in (0.0, 0.29, 0.3, 0.95, 9.0)] == [0, 0, 3, 13, len(TEXT)]


def test_without_words_the_text_is_in_proportion_to_its_audio_once_that_is_all_made():
    made = progress()
    made.audio_s = 4.0
    assert [made.offset_at(at_s, 48, complete=True) for at_s in (0.0, 1.0, 2.0, 4.0)] == [0, 12, 24, 48]


def test_without_either_it_is_an_ordinary_pace():
    made = progress()
    made.audio_s = 3.0
    assert [made.offset_at(at_s, len(TEXT), complete=False) for at_s in (0.0, 1.0, 2.0, 30.0)] == [0, 15, 30, len(TEXT)]


def test_a_flush_tells_the_pace_of_this_voice():
    made = progress(flushed=[24])
    made.audio_s = 2.0
    made.flushed()
    made.audio_s = 3.0
    assert [made.offset_at(at_s, len(TEXT), complete=False) for at_s in (1.0, 2.0, 3.0)] == [12, 24, 36]


def test_after_an_interruption_counting_begins_anew():
    made = progress()
    made.audio_s = 1.0
    made.dropped()
    assert made.offset_at(1.0, len(TEXT), complete=False) == len(TEXT)
    assert made.offset_at(2.0, len(TEXT) + 40, complete=False) == len(TEXT) + 15


def test_waste_is_the_difference_of_two_costs():
    billed = Usage(characters=100, audio_seconds=8.0)
    assert waste_of("tts", billed, played_part(billed, 30, 2.0), per_character) == Waste(70, 490)
    assert waste_of("tts", billed, billed, per_character) == NO_WASTE
    assert waste_of("tts", billed, played_part(billed, 0, 0.4), per_character) == Waste(100, 700)


def test_speech_billed_by_the_second_is_wasted_by_the_second():
    book, price = PriceBook([]), Price(audio_seconds=3_000_000, source="config")
    billed = Usage(characters=100, audio_seconds=8.0)

    def cost(usage):
        return book.cost(usage, price, local=False)

    wasted = waste_of("tts", billed, played_part(billed, 25, 2.0), cost)
    assert wasted.nusd == cost(billed).nusd - cost(Usage(audio_seconds=2.0)).nusd > 0


def test_an_unknown_price_stays_unknown():
    def unpriced(usage):
        return Cost(nusd=None, source="unpriced")

    wasted = waste_of("stt", Usage(audio_seconds=3.0), Usage(), unpriced)
    assert wasted == Waste(3.0, None)
    assert wasted + Waste(1, 5) == Waste(4.0, None)
    assert Waste(1, 2) + Waste(3, 4) == Waste(4, 6)


@pytest.mark.parametrize(("share", "tokens"), [(1.0, 100), (0.5, 50), (0.001, 1), (0.0, 0)])
def test_a_chat_of_which_a_share_was_spoken(share, tokens):
    usage = Usage(input_tokens=40, output_tokens=100)
    reached = sent_part(usage, share)
    assert (reached.input_tokens, reached.output_tokens) == (40 if tokens else 0, tokens)
