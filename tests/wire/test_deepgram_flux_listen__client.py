"""Transcription by turns, the client's side: from a golden session."""

from __future__ import annotations

from urllib.parse import parse_qsl

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ProviderError, ProviderFailed, UpstreamProtocolError
from gw.types.audio import MULAW_8K, PCM_16K
from gw.types.stt import Final, Interim, ListenEnd, ListenRequest, SpeechStarted, UtteranceEnd, VendorFrame, Word
from gw.wire.deepgram_flux_listen import FORCE_END_TURN, FluxListenClient, is_flux, path_of
from gw.wire.deepgram_listen import BY_TURNS, CLOSE_STREAM
from tests.fakes.golden import golden

FRAMES = golden("deepgram/flux").decode().splitlines()
GUTEN = Word(text="Guten", start_s=0.4, end_s=0.7, confidence=0.9)


def listener(**more) -> FluxListenClient:
    return FluxListenClient("p", secrets=("a-secret",), **more)


def turn(event: str, transcript: str = "", **members: object) -> str:
    decoded = {"type": "TurnInfo", "event": event, "transcript": transcript, "audio_window_start": 0, "audio_window_end": 1}
    return msgspec.json.encode({**decoded, **members}).decode()


def requested(model: str = "flux-general-en", **request) -> list[tuple[str, str]]:
    path, _, query = path_of(ListenRequest(**{"model": "m", "format": PCM_16K, **request}), model).partition("?")
    assert path == "/v2/listen"
    return parse_qsl(query, keep_blank_values=True)


def all_of(client: FluxListenClient) -> list:
    events = [event for text in FRAMES for event in client.receive(text)]
    client.finish()
    return events + client.closed()


def test_the_golden_session():
    client = listener()
    tag = Word(text="Tag,", start_s=0.7, end_s=1.0, confidence=0.7)
    first, *others = all_of(client)
    assert first == SpeechStarted(at_s=0.4)
    interims = [event for event in others if isinstance(event, Interim)]
    assert [event.text for event in interims] == ["Guten", "Guten Tak", "Guten Tag,", "Guten Tag, Köln", "Moment"]
    assert interims[0] == Interim(text="Guten", start_s=0.4, end_s=0.7, words=(GUTEN,), language="de", confidence=0.9)
    assert interims[1].words[1] == Word(text="Tak", start_s=0.4, end_s=0.96, confidence=0.5)   # it tells no time
    assert [event for event in others if not isinstance(event, Interim)] == [
        Final(
            text="Guten Tag, Köln!", start_s=0.4, end_s=2.16, language="de", confidence=pytest.approx(0.8),
            words=(GUTEN, tag, Word(text="Köln!", start_s=1.0, end_s=1.4, confidence=0.8)),
        ),
        UtteranceEnd(at_s=2.16),
        SpeechStarted(at_s=2.16),
        Final(
            text="Moment", start_s=2.16, end_s=3.4, confidence=0.6,
            words=(Word(text="Moment", start_s=2.16, end_s=3.4, confidence=0.6),),
        ),
        UtteranceEnd(at_s=3.4),
        ListenEnd(),
    ]  # fmt: skip
    assert client.ended


def test_a_caller_of_the_same_protocol_gets_every_frame_but_the_first():
    events = all_of(listener(keep_raw=True))
    assert [event.raw for event in events if event.raw is not None] == FRAMES[1:]
    assert sum(isinstance(event, VendorFrame) for event in events) == 3


def test_without_interims():
    events = all_of(listener(interims=False))
    kinds = [type(event) for event in events]
    assert kinds == [SpeechStarted, Final, UtteranceEnd, SpeechStarted, Final, UtteranceEnd, ListenEnd]


def test_orders():
    client = listener(keep_raw=True)
    configure = '{"type":"Configure","thresholds":{"eot_threshold":0.9}}'
    assert client.audio(b"ab") == b"ab"
    assert client.flush() == [FORCE_END_TURN]
    assert client.forward(configure) == [configure]
    assert client.forward('{"type":"KeepAlive"}') == client.forward("{") == []
    assert listener().forward(configure) == []   # that of another protocol
    assert client.finish() == [CLOSE_STREAM]


def test_a_close_that_nobody_asked_for_ends_nothing():
    client = listener()
    assert client.closed() == []
    assert not client.ended
    client.finish()
    assert client.closed() == [ListenEnd()]


def test_the_models():
    assert is_flux("flux-general-en")
    assert is_flux("flux-general-multi")
    assert not is_flux("nova-3")
    assert not is_flux("fluxus")


def test_what_is_asked_for_another_dialects_caller():
    base = [("model", "flux-general-en"), ("encoding", "linear16"), ("sample_rate", "16000")]
    assert requested() == base
    more = requested(language="de-DE", keyterms=("Köln", "a b"), endpointing_ms=25, diarize=True)
    assert more == [*base, ("keyterm", "Köln"), ("keyterm", "a b")]
    assert requested("flux-general-multi", language="de-DE", format=MULAW_8K) == [
        ("model", "flux-general-multi"), ("encoding", "mulaw"), ("sample_rate", "8000"), ("language_hint", "de")
    ]  # fmt: skip
    assert "language_hint" not in dict(requested("flux-general-multi", language="multi"))


def test_own_settings_are_passed_on():
    own = (("model", "x"), ("encoding", "alaw"), ("keyterm", "a"), ("keyterm", "b"), ("eager_eot_threshold", "0.4"))
    decoded = requested(dialect="deepgram", options=(BY_TURNS, *own), keyterms=("a", "b"))
    assert decoded[3:] == [*own[2:]]
    hinted = (BY_TURNS, ("language_hint", "es"), ("language_hint", "en"))
    assert requested("flux-general-multi", dialect="deepgram", options=hinted, language="de")[3:] == [*hinted[1:]]


def test_of_a_caller_of_the_other_protocol_only_what_both_have():
    options = (("smart_format", "true"), ("endpointing", "25"), ("mip_opt_out", "true"), ("tag", "x"), ("keyterm", "a"))
    decoded = requested(dialect="deepgram", options=options, keyterms=("a",))
    assert decoded[3:] == [("mip_opt_out", "true"), ("tag", "x"), ("keyterm", "a")]


def test_a_turn_without_words_ends_nonetheless():
    client = listener()
    assert client.receive(turn("StartOfTurn")) == [SpeechStarted(at_s=0)]
    assert client.receive(turn("EndOfTurn")) == [UtteranceEnd(at_s=1)]
    assert client.receive(turn("EndOfTurn", "a")) == [Final(text="a", end_s=1), UtteranceEnd(at_s=1)]
    assert client.receive(turn("Invented", "b")) == [Interim(text="b", end_s=1)]


def test_an_error():
    with pytest.raises(ProviderFailed) as caught:
        listener().receive('{"type":"Error","sequence_id":3,"code":"INTERNAL_SERVER_ERROR","description":"key a-secret"}')
    assert caught.value.upstream_code == "INTERNAL_SERVER_ERROR"
    assert caught.value.retryable
    assert "a-secret" not in str(caught.value)
    with pytest.raises(ProviderFailed) as caught:
        listener().receive('{"type":"Error","code":"key a-secret","description":null}')
    assert "a-secret" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", '{"type":7}', b"\xff", '{"type":"TurnInfo","words":7}', "[" * 100_000])
def test_malformed(text):
    with pytest.raises(UpstreamProtocolError):
        listener().receive(text)


def test_every_beginning_of_a_frame_is_malformed():
    for text in FRAMES:
        for at in range(len(text)):
            with pytest.raises(UpstreamProtocolError):
                listener().receive(text[:at])


@given(st.lists(st.tuples(st.sampled_from(FRAMES), st.integers(0, 300), st.binary(max_size=3)), max_size=8))
def test_spoilt_frames_are_a_provider_error_or_events(frames):
    client = listener(keep_raw=True)
    try:
        for text, at, rubbish in frames:
            data = text.encode()
            client.receive(data[:at] + rubbish + data[at + len(rubbish) :])
    except ProviderError:
        pass
