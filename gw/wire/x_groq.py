"""`x_groq`, which Groq adds to OpenAI's answers: its clients read the request's id there, and the usage of a stream.

Sources: groq-python 1.7.0, `types/chat/chat_completion_chunk.py`; langchain-groq 1.1.3 takes the usage of a stream from nowhere
else; @ai-sdk/groq 3.0.71 requires the id of a transcription.
"""

from __future__ import annotations

import msgspec


def id_of(request_id: str) -> str:
    return f"req_{request_id}"


def with_groq_id(body: bytes, request_id: str) -> bytes:
    """Add `x_groq.id` to a JSON object without one."""
    if b'"x_groq"' in body or not body.rstrip().endswith(b"}"):
        return body
    return body.rstrip()[:-1] + b',"x_groq":' + msgspec.json.encode({"id": id_of(request_id)}) + b"}"


def reports_usage(chunk: bytes) -> bool:
    """Return whether a chunk of Groq's own has the usage."""
    return b'"x_groq"' in chunk and b'"usage"' in chunk
