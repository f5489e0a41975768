"""Redaction: which entities a caller wants removed from a transcript, from one vendor's words to another's.

The common words are AssemblyAI's policies (assemblyai 1.8.2, `StreamingPiiPolicy`), which name one kind of entity each, and
these groups, after Deepgram's (docs "Redaction", "Supported entity types", November 2026): `pci`, `pii`, `phi`, `numbers`,
`aggressive_numbers`, and `all`. A translation never removes less than was asked; None means that the vendor cannot do it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

ALL = "all"
NUMBERS, AGGRESSIVE = "numbers", "aggressive_numbers"
_CARDS = frozenset({"credit_card_number", "credit_card_expiration", "credit_card_cvv"})
_HEALTH = frozenset({"medical_condition", "drug", "injury", "blood_type", "medical_process", "statistics"})
_NUMBERS = _CARDS | {
    "account_number", "banking_information", "date", "date_interval", "date_of_birth", "drivers_license", "duration",
    "healthcare_number", "ip_address", "location", "money_amount", "number_sequence", "passport_number", "person_age",
    "phone_number", "time", "us_social_security_number", "vehicle_id",
}  # fmt: skip
POLICIES = _NUMBERS | _HEALTH | {
    "email_address", "event", "filename", "gender", "gender_sexuality", "language", "marital_status", "nationality",
    "occupation", "organization", "organization_medical_facility", "password", "person_name", "physical_attribute",
    "political_affiliation", "religion", "sexuality", "url", "username", "zodiac_sign",
}  # fmt: skip
"""Policies that AssemblyAI takes for recordings and live."""
_GROUPS = {"pci": _CARDS, "phi": _HEALTH, "pii": POLICIES - _HEALTH, NUMBERS: _NUMBERS, ALL: POLICIES}
_DEEPGRAM = {
    "age": "person_age", "bank_account": "banking_information", "condition": "medical_condition",
    "credit_card": "credit_card_number", "cvv": "credit_card_cvv", "dob": "date_of_birth", "driver_license": "drivers_license",
    "location_address": "location", "location_address_street": "location", "location_city": "location",
    "location_coordinate": "location", "location_country": "location", "location_state": "location",
    "location_zip": "location", "money": "money_amount", "name": "person_name", "name_family": "person_name",
    "name_given": "person_name", "name_medical_professional": "person_name", "numerical_pii": "number_sequence",
    "origin": "nationality", "routing_number": "banking_information", "ssn": "us_social_security_number", "true": NUMBERS,
}  # fmt: skip
"""Deepgram's words that differ from the common ones."""
_TO_DEEPGRAM = {
    "banking_information": ("bank_account", "routing_number"), "credit_card_cvv": ("cvv",),
    "credit_card_number": ("credit_card",), "date_of_birth": ("dob",), "drivers_license": ("driver_license",),
    "location": ("location",), "medical_condition": ("condition",), "money_amount": ("money",), "nationality": ("origin",),
    "number_sequence": ("numerical_pii",), "person_age": ("age",), "person_name": ("name",),
    "us_social_security_number": ("ssn",), ALL: ("pii", "phi", "pci", NUMBERS),
}  # fmt: skip
_BY_NUMBER = frozenset({NUMBERS, AGGRESSIVE})
_ELEVEN = {"pci": "pci", "phi": "phi", "pii": "pii", ALL: ALL} | dict.fromkeys(_CARDS, "pci") | dict.fromkeys(_HEALTH, "phi")
_ELEVEN |= dict.fromkeys(("email_address", "person_name", "phone_number", "us_social_security_number"), "pii")


def from_deepgram(values: Iterable[str]) -> tuple[str, ...]:
    """Return the common words for the values of `redact`."""
    return _each(_DEEPGRAM.get(value, value) for value in values if value not in ("", "false"))


def to_deepgram(words: Sequence[str], *, live: bool, by_turns: bool, language: str | None) -> tuple[str, ...] | None:
    """Return the values of `redact`. Live, entities are recognised in English only; Flux redacts numbers only."""
    by_number = _BY_NUMBER.issuperset(words)
    if by_turns and not by_number:
        return None
    if live and not by_number and (language or "en").partition("-")[0].lower() != "en":
        return None
    if not POLICIES.union(_GROUPS, _BY_NUMBER).issuperset(words):
        return None
    return _each(value for word in words for value in _TO_DEEPGRAM.get(word, (word,)))


def to_assemblyai(words: Sequence[str]) -> tuple[str, ...] | None:
    """Return the values of `redact_pii_policies`."""
    if not POLICIES.union(_GROUPS).issuperset(words):
        return None
    return tuple(sorted({policy for word in words for policy in _GROUPS.get(word, {word})}))


def to_elevenlabs(words: Sequence[str]) -> tuple[str, ...] | None:
    """Return the values of `entity_redaction` for recordings: categories, which may hold more than was asked."""
    categories = [_ELEVEN.get(word) for word in words]
    return None if None in categories else _each(category for category in categories if category)


def _each(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
