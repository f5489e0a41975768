"""Speech by the vendor's id of its request: a caller may continue its own speech by that id, and nobody else's.

All projects share the operator's account with a vendor, where one could otherwise continue what another one let speak.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MOST: Final = 20_000
"""Ids that are remembered; the oldest are forgotten first."""


class SpeechIds:
    """The projects of speeches, by the vendor's id of their request, since the start."""

    def __init__(self) -> None:
        self._projects: dict[str, str] = {}

    def add(self, request_id: str, project: str) -> None:
        self._projects[request_id] = project
        if len(self._projects) > MOST:
            del self._projects[next(iter(self._projects))]

    def own(self, request_ids: Sequence[str], project: str) -> list[str]:
        """Return those that name a speech of this project."""
        return [id_ for id_ in request_ids if self._projects.get(id_) == project]
