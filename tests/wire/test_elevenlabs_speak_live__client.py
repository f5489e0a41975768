"""Live speech of ElevenLabs, the client's side: one context after the other, from a golden session and against our server's side."""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ProviderError, ProviderFailed, ProviderRejected, UpstreamProtocolError
from gw.types.audio import MULAW_8K, PCM_16K, AudioFormat
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakLiveRequest, WordTiming
from gw.wire.elevenlabs_speak_live import ElevenSpeakClient, ElevenSpeakServer, is_offered, path_of
from tests.fakes.golden import golden

FRAMES = golden("elevenlabs/multi_context").decode().splitlines()
MP3 = AudioFormat(encoding="mp3")


def speaker(fmt=PCM_16K, **request) -> ElevenSpeakClient:
    return ElevenSpeakClient("p", SpeakLiveRequest(model="m", voice="v", format=fmt, **request), ("a-secret",))


def sent(client: ElevenSpeakClient) -> list[dict]:
    frames = []
    while (frame := client.next_frame()) is not None:
        frames.append(msgspec.json.decode(frame))
    return frames


def texts(frames: list[dict]) -> list[tuple[str, str]]:
    return [(f["context_id"], f["text"]) for f in frames if "text" in f and "voice_settings" not in f]


def closed(frames: list[dict]) -> list[str]:
    return [f["context_id"] for f in frames if f.get("close_context")]


def final(context: str) -> str:
    return msgspec.json.encode({"isFinal": True, "contextId": context}).decode()


def audio(context: str | None, data: bytes = b"ab", **more: object) -> str:
    decoded = {"audio": b64encode(data).decode(), "isFinal": None, "contextId": context, **more}
    return msgspec.json.encode(decoded).decode()


# ---- the handshake


def query(model="eleven_flash_v2_5", fmt=PCM_16K, **request) -> dict[str, str]:
    path = path_of(SpeakLiveRequest(model="m", voice="a/b", format=fmt, **request), model)
    assert path.startswith("/v1/text-to-speech/a%2Fb/multi-stream-input?")
    return dict(parse_qsl(urlsplit(path).query))


def test_the_query():
    assert query(language="de-AT") == {
        "model_id": "eleven_flash_v2_5", "output_format": "pcm_16000", "language_code": "de", "inactivity_timeout": "180",
        "sync_alignment": "true",
    }  # fmt: skip
    assert "language_code" not in query("eleven_multilingual_v2", language="de")


def test_the_query_of_a_caller_of_this_dialect():
    options = (("auto_mode", "true"), ("sync_alignment", "false"), ("output_format", "mp3_22050_32"), ("frame:voice_settings", "{}"))
    requested = query(fmt=MP3, dialect="elevenlabs", options=options)
    assert requested["auto_mode"] == "true"
    assert requested["output_format"] == "mp3_22050_32"
    assert requested["sync_alignment"] == "true"
    assert "voice_settings" not in requested
    assert "auto_mode" not in query(dialect="cartesia", options=options)


@pytest.mark.parametrize(
    ("model", "offered"), [("eleven_flash_v2_5", True), ("eleven_multilingual_v2", True), ("eleven_v3", False), ("eleven_v4_turbo", False)]
)
def test_which_models_speak_live(model, offered):
    assert is_offered(model) is offered


def test_the_first_frame_of_a_context():
    client = speaker(speed=5.0)
    client.text("Hi ")
    opening, spoken_text = sent(client)
    assert opening == {
        "text": " ", "voice_settings": {"speed": 1.2}, "context_id": "gw-1",
        "generation_config": {"chunk_length_schedule": [50, 120, 160, 250, 290]},
    }  # fmt: skip
    assert spoken_text == {"text": "Hi ", "context_id": "gw-1"}
    own = speaker(dialect="elevenlabs", options=(("frame:voice_settings", '{"style":1}'), ("frame:generation_config", '{"a":[1]}')))
    own.text("Hi ")
    assert sent(own)[0] == {"text": " ", "voice_settings": {"style": 1}, "generation_config": {"a": [1]}, "context_id": "gw-1"}


# ---- text, and what stands between two flushes


def test_words_are_sent_whole():
    client = speaker()
    for piece in ("Hel", "lo wor", "ld. How", " ar", "e you"):
        client.text(piece)
    assert texts(sent(client)) == [("gw-1", "Hello "), ("gw-1", "world. "), ("gw-1", "How "), ("gw-1", "are ")]
    client.finish()
    frames = sent(client)
    assert texts(frames) == [("gw-1", "you ")]
    assert closed(frames) == ["gw-1"]


def test_scripts_without_spaces_and_endless_words_do_not_wait():
    client = speaker()
    client.text("你好")
    client.text("x" * 201)
    assert texts(sent(client)) == [("gw-1", "你好"), ("gw-1", "x" * 201)]
    client.text("안녕")
    assert texts(sent(client)) == []


def flushed(frames: list[dict]) -> list[str]:
    return [f["context_id"] for f in frames if f.get("flush")]


def said(context: str, chars: str) -> str:
    return audio(context, alignment=aligned(chars, 0))


def flushes(events: list) -> int:
    return events.count(Flushed())


def test_the_text_of_a_session_is_one_context():
    """A voice keeps its intonation only within a context, and the vendor allows five."""
    client = speaker()
    opened = 0
    for n in range(12):
        client.text(f"Sentence {n}. ")
        client.flush()
        frames = sent(client)
        opened += sum("voice_settings" in frame for frame in frames)
        assert (texts(frames)[-1][0], flushed(frames), closed(frames)) == ("gw-1", ["gw-1"], [])
        assert flushes(client.receive(said("gw-1", f"Sentence {n}."))) == 1
    assert opened == 1
    client.finish()
    frames = sent(client)
    assert (flushed(frames), closed(frames)) == ([], ["gw-1"])
    assert client.receive(final("gw-1")) == [SpeakEnd()]


def test_what_was_not_flushed_is_flushed_before_the_context_is_closed():
    """Closing alone drops it: one message, `isFinal`, without audio."""
    client = speaker()
    client.text("One two")
    client.finish()
    *_, flush, close = sent(client)
    assert (flush, close) == ({"context_id": "gw-1", "flush": True}, {"context_id": "gw-1", "close_context": True})
    assert flushes(client.receive(said("gw-1", "One two "))) == 0
    assert client.receive(final("gw-1"))[-1] == SpeakEnd()


def test_a_flush_is_answered_when_the_alignments_have_reached_it():
    client = speaker()
    client.text("One two. ")
    client.flush()
    client.text("Three four.")
    client.flush()
    assert flushes(client.receive(said("gw-1", "One tw"))) == 0
    *_, word, answer = client.receive(said("gw-1", "o. Thr"))
    assert (word.word, answer) == ("Thr", Flushed())
    assert flushes(client.receive(said("gw-1", "ee fou"))) == 0
    assert flushes(client.receive(said("gw-1", "r."))) == 1


def test_an_alignment_may_leave_characters_out():
    client = speaker()
    client.text("It's 🎈 *fun*, isn't it?")
    client.flush()
    assert flushes(client.receive(said("gw-1", "Its fun isnt i"))) == 0
    assert flushes(client.receive(said("gw-1", "t"))) == 1


@pytest.mark.parametrize("chars", ["", "five dollars fifty", "Nothing of it"])
def test_silence_answers_a_flush_whose_alignments_do_not_fit(chars):
    client = speaker()
    client.text("$5.50")
    client.flush()
    assert not client.may_be_spoken
    assert flushes(client.receive(said("gw-1", chars) if chars else audio("gw-1"))) == 0
    assert client.may_be_spoken
    assert flushes(client.quiet()) == 1
    assert not client.may_be_spoken
    client.text("Two.")
    client.flush()
    assert flushes(client.receive(said("gw-1", "Two."))) == 1


def test_silence_in_the_middle_answers_no_flush():
    client = speaker()
    client.text("One two three four five six seven eight nine. ")
    client.flush()
    client.receive(said("gw-1", "One two "))
    assert not client.may_be_spoken


def test_a_flush_of_what_was_spoken_already_is_answered_at_once():
    client = speaker()
    client.text("One. ")
    client.receive(said("gw-1", "One."))
    client.flush()
    assert flushes(client.due) == 1


def test_a_flush_without_text_is_answered_at_once():
    client = speaker()
    client.flush()
    assert client.due == [Flushed()]
    assert sent(client) == []


def test_a_second_flush_before_the_answer_is_the_same_one():
    client = speaker()
    client.text("One.")
    client.flush()
    client.flush()
    assert client.due == []
    assert client.receive(final("gw-1")) == [Flushed()]
    client.flush()
    assert client.due == [Flushed()]


def test_finish_after_the_last_flush_adds_no_context():
    client = speaker()
    client.text("One.")
    client.flush()
    client.finish()
    assert closed(sent(client)) == ["gw-1"]
    assert client.receive(final("gw-1")) == [Flushed(), SpeakEnd()]
    assert client.ended


def test_finish_without_text():
    client = speaker()
    client.finish()
    assert (client.due, sent(client), client.ended) == ([SpeakEnd()], [], True)


def test_finish_after_all_was_spoken():
    client = speaker()
    client.text("One.")
    client.flush()
    client.receive(final("gw-1"))
    client.finish()
    assert (client.due, client.ended) == ([SpeakEnd()], True)


def test_a_cleared_context_is_ignored():
    client = speaker()
    client.text("One two three")
    client.clear()
    frames = sent(client)
    assert closed(frames) == ["gw-1"]
    assert client.receive(audio("gw-1")) == []
    client.text("Four.")
    client.flush()
    frames = sent(client)
    assert texts(frames) == [("gw-2", "Four. ")]
    assert client.receive(final("gw-1")) == []
    assert client.receive(audio("gw-2")) == [AudioChunk(data=b"ab")]
    assert client.receive(final("gw-2")) == [Flushed()]


def test_clear_drops_what_waits_and_what_was_flushed():
    client = speaker()
    client.text("One. ")
    client.flush()
    client.text("Two. ")
    client.flush()
    client.text("Thr")
    sent(client)
    client.clear()
    assert closed(sent(client)) == ["gw-1"]
    assert client.receive(final("gw-1")) == []
    assert sent(client) == []
    client.finish()
    assert client.due == [SpeakEnd()]


def test_no_more_contexts_than_the_vendor_allows():
    client = speaker()
    for _ in range(6):
        client.text("One ")
        client.clear()
    client.text("Two ")
    opened = [f["context_id"] for f in sent(client) if "voice_settings" in f]
    assert opened == ["gw-1", "gw-2", "gw-3", "gw-4", "gw-5"]
    client.receive(final("gw-2"))
    assert texts(sent(client)) == [("gw-6", "Two ")]


def test_a_context_that_the_vendor_ends_by_itself():
    client = speaker()
    client.text("One ")
    assert client.receive(final("gw-1")) == []
    client.text("two.")
    client.finish()
    assert texts(sent(client))[-1] == ("gw-2", "two. ")
    assert client.receive(final("gw-2")) == [SpeakEnd()]


def test_signs_of_life():
    client = speaker()
    client.keep_alive()
    assert sent(client) == [{"text": ""}]
    client.text("One ")
    sent(client)
    client.keep_alive()
    assert sent(client) == [{"text": "", "context_id": "gw-1"}]
    client.finish()
    sent(client)
    client.keep_alive()
    assert sent(client) == [{"text": ""}]


# ---- what the vendor says


def test_the_golden_session():
    client = speaker(MP3)
    client.text("Hi you")
    client.finish()
    events = [event for frame in FRAMES for event in client.receive(frame)]
    assert [event for event in events if not isinstance(event, AudioChunk)] == [
        WordTiming(word="Hi", start_s=0.0, end_s=0.186),
        WordTiming(word="you", start_s=0.244, end_s=pytest.approx(0.244 + 0.186 + 0.128)),
        SpeakEnd(),
    ]
    pcm = b"".join(event.data for event in events if isinstance(event, AudioChunk))
    assert pcm == b"".join(n.to_bytes(2, "little") for n in range(96))


def aligned(chars: str, first_ms: float) -> dict:
    starts = [first_ms + 100 * n for n in range(len(chars))]
    return {"chars": list(chars), "charStartTimesMs": starts, "charDurationsMs": [100] * len(chars)}


def spoken_words(fmt, *frames: tuple[int, str, float]) -> list[tuple[str, float]]:
    client = speaker(fmt)
    client.text("x ")
    events = []
    for size, chars, first_ms in frames:
        events += client.receive(audio("gw-1", bytes(size), alignment=aligned(chars, first_ms)))
    events += client.receive(final("gw-1"))
    return [(event.word, round(event.start_s, 3)) for event in events if isinstance(event, WordTiming)]


def test_times_that_begin_anew_with_each_frame():
    """A second of samples each, 0.5 s of which are spoken; of mp3 nothing tells the rest."""
    assert spoken_words(PCM_16K, (32_000, "ab cd", 0), (32_000, "ef gh", 0)) == [("ab", 0.0), ("cdef", 0.3), ("gh", 1.3)]
    assert spoken_words(MP3, (9, "ab cd", 0), (9, " ef g", 0)) == [("ab", 0.0), ("cd", 0.3), ("ef", 0.6), ("g", 0.9)]


def test_times_that_go_on():
    assert spoken_words(PCM_16K, (16_000, "ab cd", 0), (16_000, " ef g", 500)) == [("ab", 0), ("cd", 0.3), ("ef", 0.6), ("g", 0.9)]


def test_the_next_context_counts_from_where_its_audio_begins():
    client = speaker(MULAW_8K)
    client.text("ab")
    client.flush()
    client.receive(audio("gw-1", bytes(8_000), alignment=aligned("ab", 0)))
    client.receive(final("gw-1"))
    client.text("cd ")
    (_, word) = client.receive(audio("gw-2", bytes(800), alignment=aligned("cd ", 0)))
    assert word == WordTiming(word="cd", start_s=1.0, end_s=1.2)


@pytest.mark.parametrize(
    "alignment",
    [
        None,
        {},
        {"chars": ["a"]},
        {"chars": [], "charStartTimesMs": [], "charDurationsMs": []},
        {"charStartTimesMs": [1], "charDurationsMs": [1]},
        {"chars": ["a"], "charStartTimesMs": [-1e300], "charDurationsMs": [1e300], "new": 1},
    ],
)
def test_odd_alignments(alignment):
    client = speaker()
    client.text("a ")
    assert client.receive(audio("gw-1", alignment=alignment))[0] == AudioChunk(data=b"ab")


def test_the_other_spelling():
    client = speaker()
    client.text("a ")
    decoded = {"chars": ["a", " "], "charsStartTimesMs": [0, 100], "charsDurationsMs": [100, 1]}
    assert client.receive(audio(None, context_id="gw-1", alignment=decoded))[1].word == "a"


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        ("", UpstreamProtocolError),
        ("[]", UpstreamProtocolError),
        (b"\xff", UpstreamProtocolError),
        ('{"audio":5}', UpstreamProtocolError),
        ('{"audio":"%"}', UpstreamProtocolError),
        ('{"audio":"AAA"}', UpstreamProtocolError),
        ('{"alignment":{"chars":"x"}}', UpstreamProtocolError),
        ('{"message":"a-secret","error":"invalid_api_key","code":1008}', ProviderRejected),
        ('{"message":"m","error":"quota_exceeded","code":1008,"contextId":"gw-1"}', ProviderFailed),
    ],
)
def test_what_ends_a_session(frame, error):
    client = speaker()
    client.text("a ")
    with pytest.raises(error) as caught:
        client.receive(frame)
    assert caught.value.retryable
    assert "a-secret" not in caught.value.message


def test_an_error_of_a_context_that_was_cleared():
    client = speaker()
    client.text("a ")
    client.clear()
    assert client.receive('{"message":"m","error":"x","code":1008,"contextId":"gw-1"}') == []


@pytest.mark.parametrize("frame", ['{"new":1}', '{"audio":null,"isFinal":null}', '{"audio":"","contextId":"other"}', final("other")])
def test_what_says_nothing(frame):
    client = speaker()
    client.text("a ")
    assert client.receive(frame) == []


def test_a_caller_of_the_same_dialect_gets_the_vendors_frames():
    client = speaker(dialect="elevenlabs")
    client.text("Hi you")
    client.finish()
    events = [event for frame in FRAMES for event in client.receive(frame)]
    assert [event.raw for event in events if isinstance(event, AudioChunk)] == FRAMES[:3]
    server = ElevenSpeakServer("c1", PCM_16K)
    decoded = [msgspec.json.decode(frame) for event in events for frame in server.encode([event])]
    assert [frame["contextId"] for frame in decoded] == [frame["context_id"] for frame in decoded] == ["c1"] * 4
    assert decoded[0]["normalizedAlignment"] == msgspec.json.decode(FRAMES[0])["normalizedAlignment"]
    assert [frame["isFinal"] for frame in decoded] == [None, None, None, True]


# ---- together


@given(st.lists(st.text(max_size=20) | st.just(None), max_size=12), st.data())
def test_all_text_is_sent_in_its_order_and_each_flush_answered(pieces, data):
    client = speaker()
    frames, answers, flushes, spoken_text = [], [], 0, False

    def exchange() -> None:
        frames.extend(sent(client))
        answers.extend(client.due)
        client.due = []

    for piece in pieces:
        if piece is None:
            flushes += spoken_text or answers.count(Flushed()) == flushes   # else one answer says both
            spoken_text = False
            client.flush()
        elif piece:
            spoken_text = True
            client.text(piece)
        exchange()
        for context in closed(frames):
            if data.draw(st.booleans()):
                answers += client.receive(final(context))
                exchange()
    client.finish()
    exchange()
    for _ in range(len(pieces) + 2):
        for context in closed(frames):
            if not client.ended:
                answers += client.receive(final(context))
                exchange()
    assert client.ended
    assert "".join("".join(text for _, text in texts(frames)).split()) == "".join("".join(p or "" for p in pieces).split())
    assert answers.count(SpeakEnd()) == 1
    assert answers.count(Flushed()) == flushes
    order = [frame["context_id"] for frame in frames]
    assert order == sorted(order, key=lambda name: int(name[3:]))


@given(st.binary(max_size=60) | st.text(max_size=60))
def test_any_frame_is_read_or_refused(frame):
    client = speaker()
    client.text("a ")
    try:
        events = client.receive(frame)
    except ProviderError:
        return
    assert events == []
