"""AssemblyAI's forms of a finished transcript: subtitles, sentences, paragraphs, a search for words, a list, its removal.

Everything is made of the transcript's own JSON, whichever vendor it came from. Source of the shapes: assemblyai 1.8.2
(`SentencesResponse`, `ParagraphsResponse`, `WordSearchMatchResponse`, `ListTranscriptResponse`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from gw.errors import ClientProtocolError
from gw.wire.query import int_field

_SENTENCE_END = (".", "?", "!", "\u3002", "\uff1f", "\uff01")
_SENTENCES_EACH = 5  # of a paragraph at most
_CAPTION_CHARACTERS = 128  # the vendor's own default is not documented
_PAGE, _PAGE_MAX = 10, 200
_NO_LETTER = re.compile(r"[^\w']+")
DELETED, DELETED_URL = "Deleted by user.", "http://deleted_by_user"  # docs "Delete transcripts", November 2026


class Facts(msgspec.Struct, gc=False):
    """The members of a stored transcript that a list has."""

    status: str = ""
    audio_url: str = ""
    error: str | None = None


_FACTS = msgspec.json.Decoder(Facts)


def facts_of(body: bytes) -> Facts:
    return _FACTS.decode(body)


class Exported(msgspec.Struct, gc=False):
    """The members of a transcript that matter here."""

    id: str = ""
    status: str = ""
    text: str | None = None
    words: list[dict[str, Any]] | None = None
    confidence: float | None = None
    audio_duration: float | None = None


_DONE = msgspec.json.Decoder(Exported)


def export(body: bytes, kind: str, fields: dict[str, str]) -> tuple[bytes, str]:
    """Return `srt`, `vtt`, `sentences`, `paragraphs` or `word-search` of a transcript, and its content type.

    Raises ClientProtocolError for one that is not complete, and for wrong fields.
    """
    done = _DONE.decode(body)
    if done.status != "completed":
        raise ClientProtocolError(what=f"the transcript is not complete: its status is {done.status!r}")
    if kind in ("srt", "vtt"):
        characters = int_field(fields, "chars_per_caption", _CAPTION_CHARACTERS) or _CAPTION_CHARACTERS
        return _captions(done, kind, characters).encode(), "text/plain"
    length = {"id": done.id, "confidence": done.confidence or 0.0, "audio_duration": done.audio_duration or 0}
    if kind == "word-search":
        answer: dict[str, Any] = _search(done, fields.get("words", ""))
    else:
        sentences = [_piece(words) for words in _sentences(done)]
        if kind == "sentences":
            answer = {"sentences": sentences, **length}
        else:
            answer = {"paragraphs": [_joined(group) for group in _paragraphs(sentences)], **length}
    return msgspec.json.encode(answer), "application/json"


def _words(done: Exported) -> list[dict[str, Any]]:
    """Return the words; one for the whole text where the vendor reports none."""
    if done.words or not done.text:
        return done.words or []
    return [{"text": done.text, "start": 0, "end": round((done.audio_duration or 0) * 1000), "confidence": 0.0, "speaker": None}]


def _sentences(done: Exported) -> list[list[dict[str, Any]]]:
    sentences: list[list[dict[str, Any]]] = [[]]
    for word in _words(done):
        current = sentences[-1]
        if current and current[-1].get("speaker") != word.get("speaker"):
            sentences.append(current := [])
        current.append(word)
        if word["text"].endswith(_SENTENCE_END):
            sentences.append([])
    return [sentence for sentence in sentences if sentence]


def _piece(words: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "text": " ".join(word["text"] for word in words), "start": words[0]["start"], "end": words[-1]["end"],
        "confidence": round(sum(word.get("confidence") or 0.0 for word in words) / len(words), 6), "words": list(words),
        "speaker": words[0].get("speaker"),
    }  # fmt: skip


def _paragraphs(sentences: Sequence[dict[str, Any]]) -> Iterable[list[dict[str, Any]]]:
    group: list[dict[str, Any]] = []
    for sentence in sentences:
        if group and (len(group) == _SENTENCES_EACH or group[-1]["speaker"] != sentence["speaker"]):
            yield group
            group = []
        group.append(sentence)
    if group:
        yield group


def _joined(sentences: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return _piece([word for sentence in sentences for word in sentence["words"]])


def _captions(done: Exported, kind: str, characters: int) -> str:
    cues: list[list[dict[str, Any]]] = []
    for sentence in _sentences(done):
        cue: list[dict[str, Any]] = []
        for word in sentence:
            if cue and len(" ".join(one["text"] for one in (*cue, word))) > characters:
                cues.append(cue)
                cue = []
            cue.append(word)
        cues.append(cue)
    point, lines = ("," if kind == "srt" else "."), (["WEBVTT\n"] if kind == "vtt" else [])
    for number, cue in enumerate(cues, 1):
        head = f"{number}\n" if kind == "srt" else ""
        times = f"{_clock(cue[0]['start'], kind)} --> {_clock(cue[-1]['end'], kind)}".replace(".", point)
        lines.append(f"{head}{times}\n{' '.join(word['text'] for word in cue)}\n")
    return "\n".join(lines) + "\n"


def _clock(ms: int, kind: str) -> str:
    s, ms = divmod(int(ms), 1000)
    hours = f"{s // 3600:02}:" if kind == "srt" or s >= 3600 else ""
    return f"{hours}{s // 60 % 60:02}:{s % 60:02}.{ms:03}"


def _bare(text: str) -> str:
    return _NO_LETTER.sub("", text).lower()


def _search(done: Exported, words: str) -> dict[str, Any]:
    """Find words, and phrases of several, without regard to case and punctuation."""
    phrases = [phrase for phrase in (part.strip() for part in words.split(",")) if phrase]
    if not phrases:
        raise ClientProtocolError(what="name the words to search for, separated by commas", param="words")
    spoken = _words(done)
    bare = [_bare(word["text"]) for word in spoken]
    matches = []
    for phrase in phrases:
        wanted = [_bare(word) for word in phrase.split()]
        size = len(wanted)
        result = [n for n in range(len(bare) - size + 1) if bare[n : n + size] == wanted]
        if result:
            times = [[spoken[n]["start"], spoken[n + size - 1]["end"]] for n in result]
            matches.append({"text": phrase, "count": len(result), "timestamps": times, "indexes": result})
    return {"id": done.id, "total_count": sum(match["count"] for match in matches), "matches": matches}


class Listed(msgspec.Struct, gc=False):
    """A transcript of a list, the newest first."""

    id: str
    status: str
    created: str
    audio_url: str
    completed: str | None
    error: str | None


def page(transcripts: Sequence[Listed], fields: dict[str, str], path: str) -> bytes:
    """Return a page of `GET /v2/transcript`. Raises ClientProtocolError for a wrong limit."""
    limit = min(int_field(fields, "limit", _PAGE), _PAGE_MAX) or _PAGE
    ids = [one.id for one in transcripts]
    before, after, status, day = (fields.get(name) for name in ("before_id", "after_id", "status", "created_on"))
    first = ids.index(before) + 1 if before in ids else 0
    last = ids.index(after) if after in ids else len(ids)
    kept = [one for one in transcripts[first:last] if not status or one.status == status]
    kept = [one for one in kept if not day or one.created.startswith(day)]
    shown = kept[-limit:] if after and not before else kept[:limit]
    older = f"{path}?limit={limit}&before_id={shown[-1].id}" if shown and shown[-1] is not kept[-1] else None
    newer = f"{path}?limit={limit}&after_id={shown[0].id}" if shown and shown[0].id != ids[0] else None
    return msgspec.json.encode({
        "page_details": {
            "limit": limit, "result_count": len(shown), "current_url": f"{path}?limit={limit}", "prev_url": older,
            "next_url": newer,
        },
        "transcripts": [{**msgspec.to_builtins(one), "resource_url": f"{path}/{one.id}"} for one in shown],
    })  # fmt: skip


def deleted(body: bytes) -> bytes:
    """Return a transcript without what was said, as the vendor answers from then on."""
    kept = msgspec.json.decode(body, type=dict[str, Any])
    names = ("id", "status", "language_code", "audio_duration", "speech_model", "speech_models", "webhook_auth",
             "auto_highlights", "redact_pii", "summarization", "language_model", "acoustic_model")  # fmt: skip
    rest = {name: kept[name] for name in names if name in kept}
    wiped = {"text": DELETED, "words": None, "utterances": None, "confidence": None, "audio_url": DELETED_URL}
    return msgspec.json.encode({**rest, **wiped})
