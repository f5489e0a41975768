"""Presidio's process, without Presidio: what is replaced, and what an error says."""

from collections.abc import Iterator

import msgspec
import pytest

from gw.engines import presidio_server
from gw.engines.presidio_server import Found, answers, replaced


@pytest.mark.parametrize(
    ("text", "found", "result"),
    [
        ("I am Ada Lovelace.", [(5, 17, "PERSON")], "I am [person]."),
        ("Ada in Paris", [(7, 12, "LOCATION"), (0, 3, "PERSON")], "[person] in [location]"),
        ("", [], ""),
        ("nobody", [], "nobody"),
        ("all of it", [(0, 9, "PERSON")], "[person]"),
        # Of two that overlap, both are replaced, by the name of the longer one.
        ("Ada Lovelace Street", [(0, 12, "PERSON"), (4, 19, "LOCATION")], "[location]"),
        ("Ada Lovelace Street", [(0, 19, "LOCATION"), (4, 12, "PERSON")], "[location]"),
        # Side by side is not overlapping.
        ("AdaParis", [(0, 3, "PERSON"), (3, 8, "LOCATION")], "[person][location]"),
        # What was replaced before stays.
        ("call [phone] now", [(5, 12, "ORGANIZATION")], "call [phone] now"),
        ("call [phone] now", [(0, 16, "PERSON")], "call [phone] now"),
        ("[name] and Ada", [(11, 14, "PERSON")], "[name] and [person]"),
    ],
)
def test_replaced(text: str, found: Found, result: str) -> None:
    assert replaced(text, found) == result


def test_an_error_has_no_word_of_the_text() -> None:
    def analyse(text: str) -> Found:
        raise ValueError(f"cannot analyse {text!r}")

    assert list(answers(iter([b'["a secret"]\n']), analyse)) == [{"error": "ValueError"}]


def test_a_line_that_is_no_list_of_texts_is_answered() -> None:
    (answer,) = answers(iter([b'{"a secret": 1}\n']), lambda _: [])
    assert answer == {"error": "ValidationError"}


def test_every_line_is_answered_in_order() -> None:
    def lines() -> Iterator[bytes]:
        yield msgspec.json.encode(["one\ntwo", ""])
        yield msgspec.json.encode([])

    assert list(answers(lines(), lambda text: [(0, 3, "PERSON")])) == [{"texts": ["[person]\ntwo", ""]}, {"texts": []}]


def test_without_presidio_the_error_is_one_of_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(presidio_server.importlib, "import_module", missing)
    with pytest.raises(ModuleNotFoundError):
        presidio_server.load("en_core_web_sm")
