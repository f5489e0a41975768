"""`python -m gw.engines.presidio_server MODEL`: Microsoft Presidio in a process of its own, asked over its pipes.

A line in is a JSON array of texts, the line out `{"texts": [...]}` with what Presidio recognised replaced, or `{"error": "..."}`.
The first line out says whether the model was loaded. MODEL is the name of an installed spaCy package or a folder with one; nothing
is ever downloaded. The process ends when its standard input closes. It runs code and models of others, so it has none of the
gateway's secrets (`environment`), and errors are reported by their class alone, because their text may quote a conversation.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec

LEFT_ALONE: Final = frozenset({"DATE_TIME", "URL"})
"""Presidio's entities that say nothing of a person by themselves; without them "tomorrow at ten" could not be read any more."""
LEAST_SCORE: Final = 0.35  # Presidio's own server has 0 and leaves the choice to its caller; patterns without context score 0.01 to 0.1
_PLACEHOLDER: Final = re.compile(r"\[[a-z_]+\]")
Found = Sequence[tuple[int, int, str]]
"""Start and end in characters, and Presidio's name of the kind."""
Analyse = Callable[[str], Found]


class ModelMissing(Exception):
    """The spaCy model is not installed; the text says how to install it."""


def load(model: str) -> Analyse:
    """Load the model and return what finds personal data in a text of its language. Raises ModelMissing, ImportError."""
    spacy = importlib.import_module("spacy")
    if not spacy.util.is_package(model) and not Path(model).is_dir():
        raise ModelMissing(f"the spaCy model {model} is not installed: python -m spacy download {model}")
    tldextract: Any = importlib.import_module("tldextract")
    tldextract.extract = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)  # with its own list, not one fetched from the network
    presidio = importlib.import_module("presidio_analyzer")
    language = str(spacy.util.load_meta(_folder(spacy, model) / "meta.json")["lang"])
    provider = importlib.import_module("presidio_analyzer.nlp_engine").NlpEngineProvider(
        nlp_configuration={"nlp_engine_name": "spacy", "models": [{"lang_code": language, "model_name": model}]}
    )
    analyzer = presidio.AnalyzerEngine(
        nlp_engine=provider.create_engine(), supported_languages=[language], default_score_threshold=LEAST_SCORE
    )
    kinds = [kind for kind in analyzer.get_supported_entities(language) if kind not in LEFT_ALONE]

    def analyse(text: str) -> Found:
        results: list[Any] = analyzer.analyze(text=text, language=language, entities=kinds)
        return [(result.start, result.end, result.entity_type) for result in results]

    return analyse


def _folder(spacy: Any, model: str) -> Path:
    """Return the folder with the model's `meta.json`."""
    return Path(spacy.util.get_package_path(model)) if spacy.util.is_package(model) else Path(model)


def replaced(text: str, found: Found) -> str:
    """Return the text with every recognised place as `[person]` and the like; of places that overlap, all of both is replaced.

    Placeholders that are in the text already stay as they are.
    """
    kept = [(match.start(), match.end(), match[0]) for match in _PLACEHOLDER.finditer(text)]
    spans = sorted([*kept, *((start, end, f"[{kind.lower()}]") for start, end, kind in found if _is_apart(start, end, kept))])
    joined: list[tuple[int, int, str]] = []
    for start, end, name in spans:
        if joined and start < joined[-1][1]:
            first, last, longest = joined[-1]
            joined[-1] = (first, max(last, end), name if end - start > last - first else longest)
        else:
            joined.append((start, end, name))
    ends = [(0, 0, ""), *joined, (len(text), len(text), "")]
    return "".join(name + text[end:start] for (_, end, name), (start, _, _) in pairwise(ends))


def _is_apart(start: int, end: int, places: Found) -> bool:
    return all(end <= first or start >= last for first, last, _ in places)


def answers(lines: Iterator[bytes], analyse: Analyse) -> Iterator[dict[str, object]]:
    """Yield the answer to each line."""
    for line in lines:
        try:
            texts = msgspec.json.decode(line, type=list[str])
            yield {"texts": [replaced(text, analyse(text)) if text else text for text in texts]}
        except Exception as error:
            yield {"error": type(error).__name__}


def main(model: str) -> None:
    """Serve until standard input closes. What libraries print goes to standard error."""
    sink = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    logging.disable(logging.CRITICAL)  # Presidio's log quotes what it analyses
    try:
        analyse = load(model)
    except Exception as error:
        why = str(error) if isinstance(error, ModelMissing) else type(error).__name__
        sink.write(msgspec.json.encode({"error": why}) + b"\n")
        return
    sink.write(b'{"texts":[]}\n')
    for answer in answers(sys.stdin.buffer, analyse):
        sink.write(msgspec.json.encode(answer) + b"\n")


if __name__ == "__main__":
    main(sys.argv[1])
