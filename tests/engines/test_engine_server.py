from __future__ import annotations

from gw.engines.engine_server import BadRequest, Inbox, answers, options
from gw.wire import wyoming

START = (wyoming.Transcribe(language="en"), wyoming.AudioStart(rate=16_000), wyoming.AudioPiece(rate=16_000, audio=b"ab"))


def decoded(work, *messages):
    inbox = Inbox()
    for message in messages:
        inbox.put(message)
    result = []
    while not inbox.jobs.empty():
        job = inbox.jobs.get()
        result.append(list(answers(job, lambda job: work(job, inbox))))
    return result


def transcript(job, inbox):
    yield wyoming.FinalTranscript(text=bytes(job.audio).decode())


def test_a_job_is_whole_when_its_audio_has_ended():
    assert decoded(transcript, *START) == []
    assert decoded(transcript, *START, *START[2:], wyoming.AudioStop()) == [[wyoming.FinalTranscript(text="abab")]]
    assert decoded(transcript, wyoming.AudioPiece(rate=16_000, audio=b"x"), wyoming.AudioStop(), wyoming.Abort()) == []


def test_an_aborted_job_still_ends():
    aborted = [wyoming.ErrorMessage(text="aborted", code="aborted")]
    assert decoded(transcript, *START, wyoming.Abort()) == [aborted]
    assert decoded(transcript, *START, wyoming.AudioStop(), wyoming.Abort()) == [aborted]
    last = [wyoming.FinalTranscript(text="ab")]
    assert decoded(transcript, *START, wyoming.Abort(), *START, wyoming.AudioStop()) == [aborted, last]


def test_a_job_may_be_aborted_in_the_middle():
    def spoken(job, inbox):
        yield wyoming.AudioStart(rate=24_000)
        inbox.put(wyoming.Abort())
        yield wyoming.AudioPiece(rate=24_000, audio=b"ab")
        raise AssertionError

    (sentence_text,) = decoded(spoken, wyoming.Synthesize(text="x"))
    assert [type(message).__name__ for message in sentence_text] == ["AudioStart", "AudioPiece", "ErrorMessage"]


def test_what_fails_says_no_more_than_its_kind():
    def refuses(job, inbox):
        raise BadRequest("voice")
        yield

    def fails(job, inbox):
        yield wyoming.AudioStart(rate=24_000)
        raise ValueError("the text itself")

    assert decoded(refuses, wyoming.Synthesize(text="x")) == [[wyoming.ErrorMessage(text="voice", code="voice")]]
    assert decoded(fails, wyoming.Synthesize(text="x"))[0][-1] == wyoming.ErrorMessage(text="ValueError", code="failed")
    assert decoded(lambda job, inbox: iter(()), wyoming.Synthesize(text="x"))[0][-1].code == "aborted"


def test_options_of_the_command_line():
    assert options(["--model_path=/a=b", "--device=cpu"]) == {"model_path": "/a=b", "device": "cpu"}
