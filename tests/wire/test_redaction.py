"""What one vendor removes from a transcript, asked of another: never less."""

from __future__ import annotations

import pytest

from gw.wire import redaction
from gw.wire.redaction import POLICIES, from_deepgram, to_assemblyai, to_deepgram, to_elevenlabs


def to_live(*words: str, language: str | None = None):
    return to_deepgram(words, live=True, by_turns=False, language=language)


@pytest.mark.parametrize(
    ("values", "policies"),
    [
        (["pci"], {"credit_card_number", "credit_card_expiration", "credit_card_cvv"}),
        (["ssn"], {"us_social_security_number"}),
        (["name_given", "dob"], {"person_name", "date_of_birth"}),
        (["phi"], {"medical_condition", "drug", "injury", "blood_type", "medical_process", "statistics"}),
    ],
)
def test_what_deepgram_redacts_is_what_assemblyai_redacts(values, policies):
    assert set(to_assemblyai(from_deepgram(values))) == policies


def test_groups_cover_what_they_promise():
    numbers = set(to_assemblyai(from_deepgram(["true"])))
    assert {"number_sequence", "credit_card_number", "us_social_security_number", "phone_number", "date"} <= numbers
    assert set(to_assemblyai(from_deepgram(["pii", "phi"]))) == POLICIES == set(to_assemblyai([redaction.ALL]))


def test_what_cannot_be_promised_is_not():
    assert to_assemblyai(from_deepgram(["aggressive_numbers"])) is None
    assert to_assemblyai(["cardinal"]) is None
    assert to_live("cardinal") is None
    assert to_elevenlabs(["numbers"]) is None
    assert to_elevenlabs(["pci", "offensive_language"]) is None


def test_every_policy_has_a_word_of_deepgrams():
    for policy in POLICIES:
        assert to_deepgram([policy], live=False, by_turns=False, language="de"), policy
    assert to_live(redaction.ALL) == ("pii", "phi", "pci", "numbers")


def test_deepgram_recognises_entities_live_in_english_only_and_flux_numbers_only():
    assert to_live("pci", language="en-GB") == to_live("pci") == ("pci",)
    assert to_live("pci", language="de") is None
    assert to_live("numbers", language="de") == ("numbers",)
    assert to_deepgram(["numbers"], live=True, by_turns=True, language=None) == ("numbers",)
    assert to_deepgram(["ssn"], live=True, by_turns=True, language=None) is None


def test_nothing_asked_is_nothing_sent():
    assert from_deepgram(["false", ""]) == ()
    assert (to_live(), to_assemblyai([]), to_elevenlabs([])) == ((), (), ())
