"""Names: modalities, sources, and model ids of the form `<provider_id>/<model_name>`."""

from __future__ import annotations

import re
from typing import Literal

Modality = Literal["stt", "llm", "tts"]
MODALITIES: tuple[Modality, ...] = ("stt", "llm", "tts")
Source = Literal["yaml", "db"]
Location = Literal["cloud", "local"]

ID_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""A provider, project or stack id."""


def split_model_id(model_id: str) -> tuple[str, str]:
    """Split `"groq/openai/gpt-oss-20b"` into `("groq", "openai/gpt-oss-20b")`, at the first slash only.

    An id without a slash gives `("", model_id)`.
    """
    provider, slash, name = model_id.partition("/")
    return (provider, name) if slash else ("", model_id)
