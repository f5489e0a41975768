"""The content of captured pieces, with and without Presidio."""

import msgspec
import pytest

from gw.engines.presidio import Presidio, PresidioFailed
from gw.store.capture_content import Contents
from gw.types.captured import CapturedText, Piece, Said


class Shouting(Presidio):
    """Replaces by capitals; fails where it is asked to."""

    def replace(self, texts: list[str]) -> list[str]:  # type: ignore[override]
        if "fail" in texts:
            raise PresidioFailed(f"Presidio with {self.model}: has ended")
        return [text.upper() for text in texts]


def piece(*texts: str, presidio: str = "") -> Piece:
    said = tuple(Said("user", text, 1.5) for text in texts)
    content = msgspec.json.encode(CapturedText(said=said, cut=True))
    return Piece("r1", "p", 0.0, 1.0, "text", 0, 100, lambda: content, presidio)


def test_without_a_model_the_content_is_left_alone() -> None:
    assert Contents(Shouting).of(piece("hello")) == piece("hello").make()


def test_only_the_texts_are_replaced() -> None:
    content = msgspec.json.decode(Contents(Shouting).of(piece("a", "b", presidio="m")), type=CapturedText)
    assert content == CapturedText(said=(Said("user", "A", 1.5), Said("user", "B", 1.5)), cut=True)


def test_each_model_has_one_process() -> None:
    started: list[str] = []

    def start(model: str) -> Presidio:
        started.append(model)
        return Shouting(model)

    contents = Contents(start)
    for model in ("m", "n", "m"):
        contents.of(piece("a", presidio=model))
    assert started == ["m", "n"]


def test_a_failure_is_trouble_until_a_text_is_examined_again() -> None:
    contents = Contents(Shouting)
    with pytest.raises(PresidioFailed):
        contents.of(piece("fail", presidio="m"))
    assert contents.trouble == "Presidio with m: has ended"
    contents.of(piece("fine", presidio="m"))
    assert not contents.trouble
