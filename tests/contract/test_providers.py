"""The contract of every provider type, by the calls of its SPEC: order, pace, usage, cancellation, errors, secrets.

A type is in the suite by standing in `gw.types.provider_types.PROVIDER_TYPES`; its fake is named in `vendors.VENDORS`.
"""

from __future__ import annotations

import msgspec
import pytest
import trio

from gw.errors import ProviderError, ProviderRefused
from gw.providers.sim import fsk
from gw.providers.spec import spec_of
from gw.relay import usage_counters
from gw.types.audio import PCM_16K, AudioFormat
from gw.types.llm import ChatEnd, Completion, Delta, UsageReport
from gw.types.provider_types import PROVIDER_TYPES
from gw.types.stt import Final, Interim, ListenEnd, ListenRequest, TextDelta, TranscribeRequest, Transcript
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakLiveRequest, SpeakRequest, VendorBilled
from gw.wire import openai_chat, wav
from tests.contract.vendors import ERRORS, KEY, VENDORS, rig

TEXT = "one two three four five six"
TEXTS = ["ça va, 你好 🎈 é", "word " * 5_000 + "end", " leading", 'a\nb\t"c" \\ \u2028 </s> [DONE]']


def offering(*kinds: str) -> list[str]:
    return [t for t in PROVIDER_TYPES if any(getattr(spec_of(t), kind) is not None for kind in kinds)]


CHAT, TRANSCRIBE, SPEAK = offering("chat"), offering("transcribe"), offering("speak")
LISTEN, SPEAK_LIVE = offering("listen"), offering("speak_live")
CALLS = [(t, kind) for kind in ("chat", "transcribe", "speak") for t in offering(kind)]
FAR = [(t, kind) for t, kind in CALLS if spec_of(t).needs_address]


def test_every_type_is_in_the_suite():
    assert set(VENDORS) == set(PROVIDER_TYPES)
    assert {spec_of(t).dialect for t in PROVIDER_TYPES} <= set(ERRORS)
    assert all(spec_of(t).type == t and spec_of(t).modalities == kind.modalities for t, kind in PROVIDER_TYPES.items())


class Recording:
    filename, content_type = "a.wav", "audio/wav"

    def __init__(self, text: str) -> None:
        samples = b"".join(fsk.encode(text, 16_000))
        self.data = wav.header(PCM_16K, len(samples)) + samples
        self.size = len(self.data)

    async def chunks(self):
        for at in range(0, self.size, 65_536):
            yield self.data[at : at + 65_536]


def chat_request(text=TEXT, *, stream=True, **fields):
    body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": text}], **fields}
    return openai_chat.parse_request(msgspec.json.encode(body))


def speak_request(text=TEXT, *, events=False, encoding="pcm_s16le"):
    fmt = AudioFormat(encoding=encoding, sample_rate_hz=24_000)
    return SpeakRequest(model="m", text=text, voice="v", format=fmt, want_events=events)


def samples_of(type_):
    """Return the encoding in which the relay requests samples of a type: those that have no bare ones make a WAV."""
    return "pcm_s16le" if "pcm_s16le" in (spec_of(type_).speak_formats or {"pcm_s16le"}) else "wav"


def opened(target, kind, **options):
    """One call of `kind` with a request of the usual size."""
    call = getattr(spec_of(target.type), kind)
    match kind:
        case "chat":
            return call(chat_request(**options), target.account("llm"))
        case "speak":
            return call(speak_request(**({"encoding": samples_of(target.type)} | options)), target.account("tts"))
        case _:
            target.vendor.hear(TEXT)
            recording = Recording(TEXT)
            request = TranscribeRequest(
                model="m", audio=recording, format=PCM_16K, audio_seconds=1.5, stream=options.get("stream", True)
            )
            return call(request, target.account("stt"))


LAST = (ChatEnd, Completion, Transcript, SpeakEnd, ListenEnd)


async def read(stream):
    """All events to the last, and the time of each."""
    events, times = [], []
    while not events or not isinstance(events[-1], LAST):
        batch = await stream.receive()
        assert batch, "an empty list says nothing"
        events += batch
        times += [trio.current_time()] * len(batch)
    return events, times


def spoken(events):
    return "".join(e.text for e in events if isinstance(e, (Delta, Completion)))


def recognized(events):
    return "".join(e.text for e in events if isinstance(e, TextDelta))


def audio(events):
    return b"".join(e.data for e in events if isinstance(e, AudioChunk))


# ---- chat


@pytest.mark.parametrize("type_", CHAT)
@pytest.mark.parametrize("text", [TEXT, *TEXTS])
async def test_chat_streams_in_order(type_, text, nursery, autojump_clock):
    target = rig(type_, nursery)
    async with opened(target, "chat", text=text) as stream:
        events, _ = await read(stream)
        with pytest.raises(ProviderError):
            await stream.receive()
    assert spoken(events) == text
    assert [type(e) for e in events].count(ChatEnd) == 1
    reasons = [e.finish_reason for e in events if isinstance(e, Delta) and e.finish_reason]
    assert reasons == ["stop"]
    (usage,) = [e.usage for e in events if isinstance(e, UsageReport)]
    assert usage.source == "vendor"
    assert usage.input_tokens > 0
    assert usage.output_tokens > 0


@pytest.mark.parametrize("type_", CHAT)
@pytest.mark.parametrize("text", [TEXT, *TEXTS])
async def test_chat_answers_whole(type_, text, nursery, autojump_clock):
    target = rig(type_, nursery)
    async with opened(target, "chat", text=text, stream=False) as stream:
        events, _ = await read(stream)
        with pytest.raises(ProviderError):
            await stream.receive()
    assert spoken(events) == text
    usage = next(e.usage for e in events if isinstance(e, (Completion, UsageReport)))
    assert usage.output_tokens > 0


@pytest.mark.parametrize("type_", CHAT)
@pytest.mark.parametrize("stream", [True, False])
async def test_chat_of_nothing_ends(type_, stream, nursery, autojump_clock):
    """An empty reply ends without text or fails as empty; it never waits."""
    target = rig(type_, nursery)
    outcomes = []
    with trio.fail_after(5):
        try:
            async with opened(target, "chat", text="", stream=stream) as answer:
                outcomes.append(spoken((await read(answer))[0]))
        except ProviderError as error:
            outcomes.append(error.outcome)
    assert outcomes in (["malformed"], [""])


@pytest.mark.parametrize("type_", CHAT)
@pytest.mark.parametrize("stream", [True, False])
async def test_chat_calls_tools(type_, stream, nursery, autojump_clock):
    target = rig(type_, nursery)
    target.vendor.call("weather", '{"city":"Où?"}')
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    tools = [{"type": "function", "function": {"name": "weather", "parameters": schema}}]
    request = chat_request("Où?", stream=stream, tools=tools)
    async with spec_of(type_).chat(request, target.account("tools")) as answer:
        events, _ = await read(answer)
    pieces = [p for e in events if isinstance(e, (Delta, Completion)) for p in e.tool_calls]
    assert {p.index for p in pieces} == {0}
    assert [p.name for p in pieces if p.name] == ["weather"]
    assert len([p.id for p in pieces if p.id]) == 1
    assert msgspec.json.decode("".join(p.arguments for p in pieces)) == {"city": "Où?"}
    reasons = [e.finish_reason for e in events if isinstance(e, (Delta, Completion)) and e.finish_reason]
    assert reasons == ["tool_calls"]


@pytest.mark.parametrize("type_", [t for t in CHAT if VENDORS[t].refuses])
@pytest.mark.parametrize("how", ["content_filter", "refusal"])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_refusal_can_be_told_before_any_content(type_, how, stream, nursery, autojump_clock):
    target = rig(type_, nursery)
    target.vendor.refuse(how)
    with pytest.raises(ProviderRefused):
        async with opened(target, "chat", stream=stream) as answer:
            await usage_counters.first_chat(answer, "p")


# ---- speech-to-text of recordings


@pytest.mark.parametrize("type_", TRANSCRIBE)
@pytest.mark.parametrize("text", ["hello there", "", "ça va, 你好"])
@pytest.mark.parametrize("stream", [True, False])
async def test_transcribe(type_, text, stream, nursery, autojump_clock):
    target = rig(type_, nursery)
    target.vendor.hear(text)
    recording = Recording(text)
    request = TranscribeRequest(
        model="m",
        audio=recording,
        format=PCM_16K,
        audio_seconds=1.5,
        stream=stream,
        language="en",
        response_format="json" if stream else "verbose_json",
    )
    async with spec_of(type_).transcribe(request, target.account("stt")) as answer:
        events, _ = await read(answer)
    assert events[-1].text == text
    if VENDORS[type_].reports_audio:
        assert events[-1].usage.source == "vendor"
    else:
        assert events[-1].usage is None
    if stream and VENDORS[type_].streams_transcripts:
        assert recognized(events) == text
    assert not target.vendor.ledger or target.vendor.ledger[0].audio == recording.data


@pytest.mark.parametrize("type_", TRANSCRIBE)
@pytest.mark.parametrize("form", ["json", "text", "srt", "vtt", "verbose_json"])
async def test_transcribe_in_every_format(type_, form, nursery, autojump_clock):
    target = rig(type_, nursery)
    target.vendor.hear("hello there")
    request = TranscribeRequest(
        model="m", audio=Recording("hello there"), format=PCM_16K, audio_seconds=1.5, response_format=form
    )
    async with spec_of(type_).transcribe(request, target.account("stt")) as answer:
        events, _ = await read(answer)
    (transcript,) = events
    assert transcript.text == "hello there"


# ---- text-to-speech


@pytest.mark.parametrize("type_", SPEAK)
@pytest.mark.parametrize("text", ["hello", "ça va, 你好 🎈", "word " * 200])
@pytest.mark.parametrize("events", [False, True])
async def test_speak(type_, text, events, nursery, autojump_clock):
    target = rig(type_, nursery)
    async with opened(target, "speak", text=text, events=events) as stream:
        decoded, _ = await read(stream)
        rates_hz = spec_of(type_).speak_rates_hz or {24_000}
        rate_hz = max((rate for rate in rates_hz if rate <= 24_000), default=min(rates_hz))
        assert stream.format == AudioFormat(encoding=samples_of(type_), sample_rate_hz=rate_hz)
    assert len(audio(decoded)) > 1_000
    chunks = [e for e in decoded[:-1] if not isinstance(e, VendorBilled)]
    assert all(isinstance(e, AudioChunk) and e.data for e in chunks)
    for entry in target.vendor.ledger:
        assert entry.fields.get("input", entry.fields.get("text")) == text
        assert entry.fields.get("voice", "v") == "v"


@pytest.mark.parametrize("type_", [t for t in SPEAK if "wav" in (spec_of(t).speak_formats or {"wav"})])
async def test_speak_in_a_wav_tells_its_real_format(type_, nursery, autojump_clock):
    target = rig(type_, nursery)
    async with opened(target, "speak", encoding="wav") as stream:
        decoded, _ = await read(stream)
        info = wav.parse(audio(decoded))
        assert (stream.format.encoding, stream.format.sample_rate_hz) == ("wav", info.format.sample_rate_hz)


@pytest.mark.parametrize("type_", SPEAK)
async def test_speak_of_nothing_is_a_rejection(type_, nursery, autojump_clock):
    target = rig(type_, nursery)
    with pytest.raises(ProviderError) as caught, trio.fail_after(5):
        async with opened(target, "speak", text="") as stream:
            await read(stream)
    assert not caught.value.retryable


# ---- live sessions


@pytest.mark.parametrize("type_", LISTEN)
async def test_listen_tells_what_it_hears_while_audio_comes(type_, nursery, autojump_clock):
    target = rig(type_, nursery)
    pause = [bytes(3_200)] * 10 if spec_of(type_).transport("listen").startswith("as ") else []   # which ends an utterance
    async with spec_of(type_).listen(ListenRequest(model="m", format=PCM_16K), target.account("stt")) as session:
        events, times = [], []

        async def speak():
            for text in ("hello there", "good bye"):
                for piece in (*fsk.encode(text, 16_000), *pause):
                    await session.send_audio(piece)
                    await trio.sleep(PCM_16K.seconds(len(piece)))
            await session.finish()

        nursery.start_soon(speak)
        events, times = await read(session)
    assert [e.text for e in events if isinstance(e, Final)] == ["hello there", "good bye"]
    first = next(t for e, t in zip(events, times, strict=True) if isinstance(e, (Interim, Final)))
    assert first < times[-1] - 0.5
    assert events[-1].usage is None or events[-1].usage.audio_seconds >= 1


@pytest.mark.parametrize("type_", SPEAK_LIVE)
async def test_speak_live_speaks_while_text_comes(type_, nursery, autojump_clock):
    target = rig(type_, nursery)
    async with spec_of(type_).speak_live(SpeakLiveRequest(model="m", voice="v", format=PCM_16K), target.account("tts")) as session:

        async def write():
            await session.send_text("Hello there. ")
            await session.flush()
            await trio.sleep(30)
            await session.send_text("Good bye.")
            await session.finish()

        nursery.start_soon(write)
        events, times = await read(session)
    assert [done.text.strip() for done in fsk.decode(audio(events), 16_000)] == ["Hello there.", "Good bye."]
    assert sum(isinstance(e, Flushed) for e in events) == 1
    assert times[0] < times[-1] - 20


# ---- what all calls keep


def in_pieces(calls):
    whole = {"transcribe": lambda t: not VENDORS[t].streams_transcripts, "speak": lambda t: not VENDORS[t].streams_speech}
    return [(t, kind) for t, kind in calls if kind not in whole or not whole[kind](t)]


@pytest.mark.parametrize(("type_", "kind"), in_pieces(CALLS))
async def test_the_first_event_is_passed_on_before_the_last_is_made(type_, kind, nursery, autojump_clock):
    target = rig(type_, nursery)
    target.vendor.pace(1)
    async with opened(target, kind) as stream:
        _, times = await read(stream)
    assert times[0] == pytest.approx(1, abs=0.1)
    assert times[-1] >= times[0] + 2


@pytest.mark.parametrize(("type_", "kind"), FAR)
async def test_a_whole_answer_keeps_the_connection_for_the_next(type_, kind, nursery, autojump_clock):
    target = rig(type_, nursery)
    for _ in range(3):
        async with opened(target, kind) as stream:
            await read(stream)
    assert (target.pool.opened, target.pool.idle, target.pool.in_use) == (1, 1, {})
    assert [entry.outcome for entry in target.vendor.ledger] == ["ended"] * len(target.vendor.ledger)
    assert len(target.vendor.ledger) >= 3


@pytest.mark.parametrize(("type_", "kind"), in_pieces(FAR))
async def test_leaving_early_closes_the_upstream_at_once(type_, kind, nursery, autojump_clock):
    target = rig(type_, nursery)
    target.vendor.pace(1)
    async with opened(target, kind) as stream:
        await stream.receive()
    left_at = trio.current_time()
    (entry,) = target.vendor.ledger
    await entry.aborted.wait()
    assert (entry.outcome, entry.closed) == ("cancelled", left_at)
    assert (target.net.open, target.pool.in_use) == (0, {})


@pytest.mark.parametrize(("type_", "kind"), in_pieces(FAR))
@pytest.mark.parametrize("after_s", [0.5, 2.5])
async def test_cancelling_closes_the_upstream_at_once(type_, kind, after_s, nursery, autojump_clock):
    """Before the first piece, and between two."""
    target = rig(type_, nursery)
    target.vendor.pace(1)
    with trio.move_on_after(after_s) as scope:
        async with opened(target, kind) as stream:
            await read(stream)
    assert scope.cancelled_caught
    (entry,) = target.vendor.ledger
    await entry.aborted.wait()
    assert (entry.outcome, entry.closed) == ("cancelled", pytest.approx(after_s))
    assert (target.net.open, target.pool.in_use) == (0, {})


@pytest.mark.parametrize(("type_", "kind"), [(t, kind) for t, kind in CALLS if (t, kind) not in FAR])
async def test_an_engine_inside_is_cancelled_as_well(type_, kind, nursery, autojump_clock):
    target = rig(type_, nursery)
    target.vendor.pace(1)
    with trio.move_on_after(2.5) as scope:
        async with opened(target, kind) as stream:
            await read(stream)
    assert scope.cancelled_caught
    assert trio.current_time() == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("type_", "kind", "case"),
    [(t, kind, case) for t, kind in CALLS for case in ERRORS[spec_of(t).dialect]],
    ids=lambda value: getattr(value, "name", value),
)
async def test_errors_say_whose_fault_it_is(type_, kind, case, nursery, autojump_clock):
    target = rig(type_, nursery)
    target.vendor.fail(case)
    with pytest.raises(ProviderError) as caught:
        async with opened(target, kind) as stream:
            await read(stream)
    error = caught.value
    assert type(error) is case.error
    assert (error.provider, error.retryable) == (f"my-{type_}", case.retryable)
    assert getattr(error, "fault", "") == case.fault
    assert getattr(error, "retry_after_s", None) == case.retry_after_s
    assert getattr(error, "upstream_status", case.status) == case.status
    assert target.pool.in_use == {}


@pytest.mark.parametrize(("type_", "kind"), FAR)
@pytest.mark.parametrize("status", [400, 401, 429, 500])
async def test_a_key_in_a_vendors_error_is_not_shown(type_, kind, status, nursery, autojump_clock):
    target = rig(type_, nursery)
    target.vendor.leak(status, KEY)
    with pytest.raises(ProviderError) as caught:
        async with opened(target, kind) as stream:
            await read(stream)
    error = caught.value
    shown = f"{error} {error!r} {error.facts()} {error.args} {error.__cause__!r} {target.account('llm')!r}"
    assert KEY not in shown


@pytest.mark.parametrize(("type_", "kind"), FAR)
async def test_nobody_there(type_, kind, nursery, autojump_clock):
    target = rig(type_, nursery)
    target.net.hosts.clear()
    with pytest.raises(ProviderError) as caught:
        async with opened(target, kind) as stream:
            await read(stream)
    assert (caught.value.outcome, caught.value.retryable) == ("unreachable", True)
