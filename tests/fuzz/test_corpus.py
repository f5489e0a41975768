"""The corpus of the fuzzer: every input that once found something new or broke a decoder, and some changes of each."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.decoders import DECODERS
from tests.fuzz.run import CORPUS

CHANGES = 6
"""Changed copies of each input."""


def changed(data: bytes, random_: random.Random) -> bytes:
    """Return the input with some bytes replaced, left out or said twice."""
    out = bytearray(data)
    for _ in range(random_.randint(1, 3)):
        at = random_.randrange(len(out) + 1)
        end = min(len(out), at + random_.randint(0, 8))
        kind = random_.randrange(3)
        out[at:end] = random_.randbytes(end - at) if kind == 0 else b"" if kind == 1 else out[at:end] * 2
    return bytes(out)


@pytest.mark.parametrize("name", DECODERS)
def test_inputs_of_the_corpus(name):
    random_ = random.Random(name)
    inputs = [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]
    assert inputs
    for data in inputs:
        DECODERS[name](data)
        for _ in range(CHANGES):
            DECODERS[name](changed(data, random_))


def test_the_corpus_is_of_these_decoders():
    assert {path.name for path in CORPUS.iterdir()} == set(DECODERS)
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) < 500_000
