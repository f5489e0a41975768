"""Decides how long a speaker must be silent until a turn of a conversation has ended, by the words said so far.

After each pause the words are judged (`EndOfTurn.probability`), and the silence to wait for follows from the estimate and
the session's eagerness: next to none after a finished sentence, up to the eagerness' limit after words that trail off. If
the speaker goes on before, the turn goes on, and its next pause is judged with all of its words.

`WordsEndTurn` is the judgement that gateways begin with; another one (a model that reads text) replaces it with the
attribute `Gateway.end_of_turn`.

Source of eagerness and limits: openai-python 3.52.0, `types/realtime/realtime_audio_input_turn_detection.py`, SemanticVad.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol, get_args

Eagerness = Literal["low", "medium", "high", "auto"]
EAGERNESSES: frozenset[str] = frozenset(get_args(Eagerness))
LONGEST_S: Mapping[str, float] = {"low": 8.0, "medium": 4.0, "high": 2.0, "auto": 4.0}
"""Longest silence, for words that certainly trail off; `auto` equals `medium`."""

_FINISHED, _LIKELY, _UNKNOWN, _UNLIKELY, _TRAILING = 0.97, 0.85, 0.6, 0.3, 0.03
_SENTENCE_END = ".!?。！？"
_CLAUSE_END = ",;:、，-–—…"
_WHOLE_ANSWERS = frozenset({
    "yes", "yeah", "yep", "no", "nope", "ok", "okay", "sure", "thanks", "stop", "hello", "hi", "hey", "bye",
    "goodbye", "please", "right", "correct", "exactly", "ja", "nein", "genau", "danke", "hallo", "oui", "non",
    "merci", "bonjour", "sí", "si", "gracias", "hola",
})  # fmt: skip
"""Single words that are complete turns."""
_FILLERS = frozenset({
    "um", "uhm", "umm", "uh", "uhh", "er", "erm", "hmm", "hm", "mm", "äh", "ähm", "öh", "hä", "euh", "heu", "eh",
    "em", "este",
})  # fmt: skip
_CONNECTORS = frozenset({
    "a", "an", "the", "and", "or", "but", "so", "because", "if", "when", "while", "that", "which", "who", "with",
    "without", "to", "of", "for", "from", "in", "on", "at", "by", "as", "than", "then", "my", "your", "his", "her",
    "its", "our", "their", "this", "these", "is", "are", "was", "were", "am", "be", "been", "will", "would", "can",
    "could", "should", "i'm", "it's", "und", "oder", "aber", "weil", "wenn", "dass", "der", "die", "das", "ein",
    "eine", "einen", "mit", "ohne", "zu", "von", "für", "aus", "im", "bei", "als", "mein", "meine", "ist", "sind",
    "et", "ou", "mais", "parce", "que", "le", "la", "les", "un", "une", "des", "de", "du", "avec", "sans", "pour",
    "dans", "mon", "ma", "est", "sont", "y", "o", "pero", "porque", "el", "los", "las", "una", "con", "sin", "para",
    "en", "mi", "es", "son",
})  # fmt: skip
"""Words after which a sentence goes on: a pause behind one is a pause for thought."""


class EndOfTurn(Protocol):
    """Judges whether a speaker who has just paused has finished."""

    def probability(self, text: str, language: str | None) -> float:
        """Return the probability, from 0 to 1, that these words are a complete turn. Must not block."""


class WordsEndTurn:
    """Judges by the last word and the punctuation of the recogniser. Knows English, German, French and Spanish."""

    def probability(self, text: str, language: str | None) -> float:
        text = text.strip().rstrip("\"'”’»)")
        words = text.split()
        if not words:
            return _TRAILING
        last = words[-1].strip(_SENTENCE_END + _CLAUSE_END).lower()
        if text[-1] in "?!？！":
            return _FINISHED
        if last in _FILLERS or not last or text.endswith("...") or text[-1] in _CLAUSE_END:
            return _TRAILING
        if last in _CONNECTORS:  # recognisers put a full stop behind whatever they make final
            return _UNLIKELY if text[-1] in _SENTENCE_END else _TRAILING
        if text[-1] in _SENTENCE_END:
            return _FINISHED
        if len(words) == 1 and last in _WHOLE_ANSWERS:
            return _FINISHED
        return _UNKNOWN if any(mark in text for mark in _SENTENCE_END) else _LIKELY


def silence_s(probability: float, eagerness: str) -> float:
    """Return the silence after which a turn has ended, in seconds from the end of its speech."""
    doubt = 1.0 - min(1.0, max(0.0, probability))
    return LONGEST_S.get(eagerness, LONGEST_S["auto"]) * doubt**2
