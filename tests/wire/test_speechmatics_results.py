"""Speechmatics' languages and vocabulary, words of results, and errors of the batch API."""

from __future__ import annotations

import pytest

from gw.errors import ProviderFailed, ProviderRejected, RateLimitError
from gw.types.stt import Word
from gw.wire import speechmatics_results, vendor_errors
from gw.wire.speechmatics_results import ResultItem, language_of, takes_keyterms, words_of


@pytest.mark.parametrize(
    ("language", "model", "expected"),
    [
        (None, "enhanced", "en"), ("en-GB", "enhanced", "en"), ("zh-TW", "standard", "cmn"), ("yue", "enhanced", "yue"),
        ("multi", "enhanced", "auto"), ("multi", "melia-1", "multi"), (None, "melia-1", "multi"), ("tlh", "enhanced", None),
    ],
)  # fmt: skip
def test_languages(language, model, expected):
    assert language_of(language, model) == expected


def test_terms():
    assert takes_keyterms(("Acme", "one two three four five six"), "enhanced")
    assert not takes_keyterms(("one two three four five six seven",), "enhanced")
    assert not takes_keyterms(("a" * 4_001,), "enhanced")
    assert not takes_keyterms(["a"] * 1_001, "enhanced")
    assert not takes_keyterms(("Acme",), "melia-1")


def item(kind, content, at_s, **more):
    alternative = speechmatics_results._Alternative(content=content, confidence=0.5)
    return ResultItem(kind=kind, start_time=at_s, end_time=at_s + 0.5, alternatives=[alternative], **more)


def test_marks_belong_to_words():
    items = [
        item("punctuation", "¿", 0.0, attaches_to="next"), item("word", "Qué", 0.0), item("punctuation", "?", 0.5, attaches_to="previous"),
        item("speaker_change", "", 1.0), ResultItem(kind="word"), item("word", "Sí", -1.0),
    ]  # fmt: skip
    assert words_of(items) == (
        Word(text="¿Qué?", start_s=0.0, end_s=0.5, confidence=0.5), Word(text="Sí", start_s=0.0, end_s=0.0, confidence=0.5),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("status", "error", "expected", "fault"),
    [
        (400, "Job rejected", ProviderRejected, "request"), (401, "Permission Denied", ProviderRejected, "candidate"),
        (403, "Invalid or missing license", ProviderRejected, "candidate"),
        (429, "Max concurrent running jobs exceeded", RateLimitError, ""),
        (500, "Internal Server Error", ProviderFailed, ""),
    ],
)  # fmt: skip
def test_errors(status, error, expected, fault):
    body = speechmatics_results.error_body(status, error, "about it")
    found = vendor_errors.classify("p", status, None, body, dialect=speechmatics_results.ERRORS)
    assert (type(found), getattr(found, "fault", "")) == (expected, fault)
    assert "about it" in found.detail
