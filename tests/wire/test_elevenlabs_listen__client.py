"""Live transcription of ElevenLabs, the client's side: from a golden session, and against our own server's side."""

from __future__ import annotations

import math
from base64 import b64decode
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ProviderError, ProviderFailed, ProviderRejected, RateLimitError, UpstreamProtocolError
from gw.types.audio import PCM_16K, PCM_24K
from gw.types.stt import Final, Interim, ListenEnd, ListenRequest, UtteranceEnd, VendorFrame, Word
from gw.wire.elevenlabs_listen import ElevenListenClient, ElevenListenServer, parse_query, path_of
from gw.wire.elevenlabs_settings import takes
from tests.fakes.golden import golden

FRAMES = golden("elevenlabs/realtime_transcription").decode().splitlines()
TIMED = "committed_transcript_with_timestamps"


def request(fmt=PCM_16K, **members) -> ListenRequest:
    return ListenRequest(model="m", format=fmt, **members)


def listener(fmt=PCM_16K, **members) -> ElevenListenClient:
    return ElevenListenClient("p", request(fmt, **members), ("a-secret",))


def own(**options: str) -> dict:
    return {"dialect": "elevenlabs", "options": tuple(options.items())}


def query(**members) -> list[tuple[str, str]]:
    path = path_of(request(**members), "scribe_v2_realtime")
    assert path.startswith("/v1/speech-to-text/realtime?")
    return parse_qsl(urlsplit(path).query)


def frame(kind: str, **members: object) -> str:
    return msgspec.json.encode({"message_type": kind, **members}).decode()


def decoded(frames) -> list[dict]:
    return [msgspec.json.decode(one) for one in ([frames] if isinstance(frames, str) else frames)]


# ---- the handshake


def test_the_query():
    requested = query(language="de-AT", endpointing_ms=100, keyterms=("Acme",))
    assert requested == [
        ("model_id", "scribe_v2_realtime"), ("audio_format", "pcm_16000"), ("commit_strategy", "vad"),
        ("language_code", "de"), ("vad_silence_threshold_secs", "0.3"), ("keyterms", "Acme"), ("include_timestamps", "true"),
    ]  # fmt: skip
    assert dict(query(fmt=PCM_24K))["audio_format"] == "pcm_24000"
    assert dict(query())["include_language_detection"] == "true"
    assert dict(query(endpointing_ms=9_000))["vad_silence_threshold_secs"] == "3"
    assert ("language_code", "multi") not in query(language="multi")


def test_key_terms_that_the_vendor_takes():
    assert takes(("Acme", "x" * 20), live=True)
    assert not takes(("Acme", "x" * 21), live=True)
    assert takes(("Acme", "x" * 21), live=False)
    assert not takes(("a",) * 51, live=True)
    assert not takes(("a <b>",), live=False)
    assert not takes(("a b c d e f",), live=False)


def test_the_query_of_a_caller_of_this_dialect():
    requested = query(**own(model_id="x", audio_format="y", commit_strategy="manual", no_verbatim="true", include_timestamps="false"))
    assert requested == [
        ("model_id", "scribe_v2_realtime"), ("audio_format", "pcm_16000"), ("commit_strategy", "manual"),
        ("no_verbatim", "true"), ("include_timestamps", "true"),
    ]  # fmt: skip
    assert "include_timestamps" not in dict(query(**own(filter_background_audio="true")))


# ---- audio and commits


def test_audio_goes_in_whole_samples_and_small_frames():
    client = listener()
    frames = client.audio(b"\1") + client.audio(b"\2" + b"\3\4" * 20_000 + b"\5") + client.audio(b"\6")
    assert [one["message_type"] for one in decoded(frames)] == ["input_audio_chunk"] * len(frames)
    assert {(one["commit"], one["sample_rate"]) for one in decoded(frames)} == {(False, 16_000)}
    pieces = [b64decode(one["audio_base_64"]) for one in decoded(frames)]
    assert b"".join(pieces) == b"\1\2" + b"\3\4" * 20_000 + b"\5\6"
    assert all(len(piece) % 2 == 0 and len(piece) <= 16_000 for piece in pieces)
    assert listener().audio(b"\1") == []


@pytest.mark.parametrize(
    ("fmt", "seconds", "options", "silence"),
    [
        (PCM_16K, 1.0, {}, bytes(9_600)),
        (PCM_16K, 1.0, own(commit_strategy="manual"), None),
        (PCM_16K, 1.0, own(), None),
        (PCM_16K, 0.1, own(commit_strategy="manual"), bytes(6_400)),
        (PCM_24K, 1.0, own(commit_strategy="vad"), bytes(14_400)),
    ],
)
def test_a_commit_has_audio_enough(fmt, seconds, options, silence):
    """With `vad` the vendor may have just committed by itself; with `manual` only the client commits."""
    client = listener(fmt, **options)
    client.audio(bytes(int(seconds * fmt.bytes_per_second)))
    frames = decoded(client.flush())
    assert frames[-1] == {
        "message_type": "input_audio_chunk", "audio_base_64": "", "commit": True, "sample_rate": fmt.sample_rate_hz
    }  # fmt: skip
    assert [b64decode(one["audio_base_64"]) for one in frames[:-1]] == ([] if silence is None else [silence])
    assert client.flush() == []


def test_our_silence_is_not_in_the_times():
    client = listener()
    client.audio(bytes(64_000))
    client.flush()
    client.audio(bytes(32_000))
    words = [{"text": t, "start": a, "end": b, "type": "word"} for t, a, b in [("a", 1.0, 1.5), ("b", 2.2, 2.4), ("c", 2.6, 3.1)]]
    final, end = client.receive(frame(TIMED, text="a b c", words=words))
    assert [(w.start_s, round(w.end_s, 6)) for w in final.words] == [(1.0, 1.5), (2.0, 2.1), (pytest.approx(2.3), 2.8)]
    assert (final.start_s, final.end_s, end.at_s) == (1.0, pytest.approx(2.8), pytest.approx(2.8))


def test_signs_of_life_and_frames_of_the_caller():
    client = listener()
    assert decoded(client.keep_alive()) == [
        {"message_type": "input_audio_chunk", "audio_base_64": "", "commit": False, "sample_rate": 16_000}
    ]
    assert client.forward("x") == "x"
    assert client.flush() == []


# ---- what the vendor says


def test_the_golden_session():
    client = listener()
    client.audio(bytes(64_000))
    events = []
    for at, text in enumerate(FRAMES):
        if at == len(FRAMES) - 2:
            assert not client.may_end
            client.finish()
        events += client.receive(text)
    assert events == [
        Interim(text="Hello", start_s=0.0, end_s=2.0),
        Interim(text="Hello there.", start_s=0.0, end_s=2.0),
        Final(
            text="Hello there.", start_s=0.32, end_s=1.3, language="en",
            words=(
                Word(text="Hello", start_s=0.32, end_s=0.8, confidence=math.exp(-0.01)),
                Word(text="there.", start_s=0.86, end_s=1.3, confidence=math.exp(-0.02), speaker="speaker_0"),
            ),
        ),
        UtteranceEnd(at_s=1.3),
        Interim(text="Grüß Gott 🎈", start_s=1.3, end_s=2.0),
        Final(
            text="Grüß Gott 🎈", start_s=3.0, end_s=3.9, language="de",
            words=(
                Word(text="Grüß", start_s=3.0, end_s=3.4, confidence=math.exp(-0.1)),
                Word(text="Gott", start_s=3.5, end_s=3.9, confidence=math.exp(-0.1)),
            ),
        ),
        UtteranceEnd(at_s=3.9),
        ListenEnd(),
    ]  # fmt: skip
    assert client.ended


@pytest.mark.parametrize("requested", ["true", "false"])
def test_a_caller_of_the_same_dialect_gets_the_frames_it_asked_for(requested):
    options = parse_query(f"model_id=m&audio_format=pcm_16000&commit_strategy=vad&include_timestamps={requested}".encode())
    client = ElevenListenClient("p", options.request)
    server = ElevenListenServer(options, session_id="s")
    frames = [one for text in FRAMES[:-2] for event in client.receive(text) for one in server.encode([event])]
    assert frames == [text for text in FRAMES[1:-2] if requested == "true" or TIMED not in text]


def test_without_timestamps_the_first_telling_counts():
    client = listener(**own(filter_background_audio="true"))
    client.audio(bytes(32_000))
    text = frame("committed_transcript", text=" Hi. ")
    assert client.receive(text) == [Final(text="Hi.", start_s=0.0, end_s=1.0, raw=text), UtteranceEnd(at_s=1.0)]
    assert client.receive(frame("committed_transcript", text=""))[0].raw is not None


def test_answers_to_the_vendors_own_commits_may_come_after_the_last_of_ours():
    client = listener()
    client.audio(bytes(32_000))
    assert len(client.finish()) == 2
    assert not client.may_end
    client.receive(frame("committed_transcript", text="One."))
    assert not client.may_end
    assert isinstance(client.receive(frame(TIMED, text="One."))[0], Final)
    assert client.may_end
    assert isinstance(client.receive(frame(TIMED, text="Two."))[0], Final)
    assert not client.ended
    assert client.quiet() == [ListenEnd()]
    assert client.ended


def test_an_empty_answer_that_is_told_once_only():
    client = listener()
    client.finish()
    assert client.receive(frame("committed_transcript", text="")) == []
    assert client.may_end


def test_silence():
    client = listener()
    with pytest.raises(ProviderFailed):
        client.receive(frame("insufficient_audio_activity", error="quiet"))
    client = listener()
    client.finish()
    assert client.receive(frame("insufficient_audio_activity", error="quiet")) == [ListenEnd()]


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("error", ProviderFailed),
        ("auth_error", ProviderRejected),
        ("quota_exceeded", ProviderFailed),
        ("transcriber_error", ProviderFailed),
        ("unaccepted_terms", ProviderRejected),
        ("rate_limited", RateLimitError),
        ("resource_exhausted", RateLimitError),
        ("queue_overflow", ProviderFailed),
        ("session_time_limit_exceeded", ProviderFailed),
        ("input_error", ProviderRejected),
        ("invalid_request", ProviderRejected),
        ("chunk_size_exceeded", ProviderRejected),
    ],
)
def test_what_ends_a_session(kind, error):
    with pytest.raises(error) as caught:
        listener().receive(frame(kind, error="the key a-secret is bad"))
    assert type(caught.value) is error
    assert caught.value.retryable
    assert "a-secret" not in caught.value.message


@pytest.mark.parametrize("text", ["", "[]", b"\xff", '{"message_type":5}', frame(TIMED, text="x", words="y")])
def test_what_is_no_frame(text):
    with pytest.raises(UpstreamProtocolError):
        listener().receive(text)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        frame("warning", warning="w"),
        frame("commit_throttled", error="e"),
        frame("new", a=1),
        frame("partial_transcript", text=" "),
    ],
)
def test_what_says_nothing(text):
    assert listener().receive(text) == []
    assert listener(**own()).receive(text) == [VendorFrame(raw=text)]


def test_words_of_odd_shape():
    words = [{"text": None}, {"text": "a", "type": "word", "start": None, "end": -1, "new": 1}, {"text": "b", "start": 2, "end": 1}]
    (final, _) = listener().receive(frame(TIMED, text="a b", words=words))
    assert final.words == (Word(text="a", start_s=0.0, end_s=0.0), Word(text="b", start_s=2.0, end_s=2.0))


# ---- together


@given(st.lists(st.binary(max_size=30), max_size=8))
def test_the_server_hears_all_whole_samples(pieces):
    client = listener()
    frames = [one for piece in pieces for one in client.audio(piece)]
    received_events = b"".join(b64decode(msgspec.json.decode(one)["audio_base_64"]) for one in frames)
    complete = b"".join(pieces)
    assert received_events == complete[: len(complete) // 2 * 2]


@given(st.binary(max_size=60) | st.text(max_size=60))
def test_any_frame_is_read_or_refused(text):
    try:
        events = listener().receive(text)
    except ProviderError:
        return
    assert events == []
