"""Makes the content of captured pieces, in the thread that stores them; for projects that want it, Presidio examines the words."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gw.engines.presidio import Presidio, PresidioFailed
from gw.types.captured import CapturedText, Piece


class Contents:
    """The processes of Presidio, one for each spaCy model that a project names. All methods belong to one thread."""

    def __init__(self, presidio: Callable[[str], Presidio] = Presidio) -> None:
        self.trouble = ""
        """Why Presidio could not examine a text; empty once it examines one again."""
        self._presidio = presidio
        self._by_model: dict[str, Presidio] = {}

    def of(self, piece: Piece) -> bytes:
        """Return the content of a piece, personal data replaced. Raises PresidioFailed: then it must not be stored."""
        content = piece.make()
        if not piece.presidio:
            return content
        if (presidio := self._by_model.get(piece.presidio)) is None:
            presidio = self._by_model[piece.presidio] = self._presidio(piece.presidio)
        words = msgspec.json.decode(content, type=CapturedText)
        try:
            texts = presidio.replace([said.text for said in words.said])
        except PresidioFailed as error:
            self.trouble = str(error)
            raise
        self.trouble = ""
        said = tuple(msgspec.structs.replace(one, text=text) for one, text in zip(words.said, texts, strict=True))
        return msgspec.json.encode(msgspec.structs.replace(words, said=said))

    def close(self) -> None:
        """End the processes."""
        for presidio in self._by_model.values():
            presidio.close()
        self._by_model.clear()
