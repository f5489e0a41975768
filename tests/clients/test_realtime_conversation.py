"""OpenAI's realtime conversation by the `openai` SDK, whose types decode every event: one test for each thing a conversation does."""

from __future__ import annotations

import socket
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import pytest

from gw.providers.sim import fsk
from tests.clients.gateway_pair import STORY_WANTED, TEXT

pytestmark = [
    pytest.mark.clients,
    pytest.mark.usefixtures("not_ours"),
    pytest.mark.filterwarnings("ignore"),  # of the clients' own making
]

WHO = pytest.mark.parametrize("who", ["own", "other"])
SENTENCE = TEXT + "?"
PNG = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@attrs.define
class Session:
    connection: Any
    seen: list[Any] = attrs.field(factory=list)

    def until(self, kind: str) -> Any:
        """Return the next event of this type; an error that is not meant fails the test."""
        while True:
            event = self.connection.recv()
            self.seen.append(event)
            assert event.type in (kind, event.type if kind == "error" else "") or event.type != "error", event
            if event.type == kind:
                return event

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Have all that is sent within arrive together."""
        tcp = self.connection._connection.socket
        tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        yield
        tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)

    def speak(self, text: str, silence_s: float = 1.0) -> None:
        pcm = b"".join(fsk.encode(text, 24_000)) + bytes(int(48_000 * silence_s))
        for at in range(0, len(pcm), 2_400):
            self.connection.input_audio_buffer.append(audio=b64encode(pcm[at : at + 2_400]).decode())

    def configure(self, **session: Any) -> Any:
        self.connection.session.update(session={"type": "realtime", **session})
        return self.until("session.updated").session

    def write(self, text: str) -> Any:
        content = [{"type": "input_text", "text": text}]
        self.connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})
        return self.until("conversation.item.done").item

    def respond(self, **response: Any) -> Any:
        self.connection.response.create(response=response)
        return self.until("response.done").response

    def audio_ms(self) -> int:
        """Return the length of the audio that has come."""
        return sum(len(b64decode(e.delta)) for e in self.seen if e.type == "response.output_audio.delta") // 48


@pytest.fixture
def talk(drop_in):
    import openai

    @contextmanager
    def opened(who: str) -> Iterator[Session]:
        client = openai.OpenAI(base_url=drop_in.at("openai", who) + "/v1", api_key="any")
        with client, client.realtime.connect(model="talk") as connection:
            yield Session(connection)

    return opened


@WHO
def test_speech_that_may_not_interrupt(talk, who):
    with talk(who) as session:
        updated = session.configure(
            audio={"input": {"turn_detection": {"type": "server_vad", "interrupt_response": False}}}
        )
        assert updated.audio.input.turn_detection.interrupt_response is False
        session.write(TEXT)
        with session.at_once():  # or the first may have been answered when the second is read
            session.connection.response.create()
            session.connection.response.create(event_id="second")
        error = session.until("error").error
        assert (error.code, error.event_id) == ("conversation_already_has_active_response", "second")
        assert session.until("response.done").response.status == "completed"
        session.speak(SENTENCE)
        assert session.until("conversation.item.input_audio_transcription.completed").transcript.startswith(TEXT)
        assert session.until("response.done").response.status == "completed"


@WHO
def test_an_answer_is_truncated_at_the_word_and_retrieved(talk, who):
    with talk(who) as session:
        session.write(TEXT)
        (answer,) = session.respond().output
        text = answer.content[0].transcript
        end_ms = session.audio_ms() // 2
        truncate = session.connection.conversation.item.truncate
        truncate(item_id=answer.id, content_index=0, audio_end_ms=end_ms)
        truncated = session.until("conversation.item.truncated")
        assert (truncated.item_id, truncated.audio_end_ms) == (answer.id, end_ms)
        session.connection.conversation.item.retrieve(item_id=answer.id)
        heard = session.until("conversation.item.retrieved").item.content[0].transcript
        assert text.startswith(heard)
        assert 0 < len(heard) < len(text)
        truncate(item_id=answer.id, content_index=0, audio_end_ms=end_ms + 1_000)
        assert session.until("error").error.param == "audio_end_ms"
        truncate(item_id="item_of_nobody", content_index=0, audio_end_ms=0)
        assert session.until("error").error.code == "item_truncate_invalid_item_id"
        session.connection.conversation.item.retrieve(item_id="item_of_nobody")
        assert session.until("error").error.code == "item_retrieve_invalid_item_id"


@WHO
def test_speech_over_an_answer_reports_what_was_heard(talk, who):
    with talk(who) as session:
        session.write(STORY_WANTED)
        (answer,) = session.respond().output
        session.speak(SENTENCE)
        truncated = session.until("conversation.item.truncated")
        assert truncated.item_id == answer.id
        assert truncated.audio_end_ms < session.audio_ms()


@WHO
def test_a_response_outside_the_conversation(talk, who):
    with talk(who) as session:
        item = session.write(TEXT)
        response = session.respond(
            conversation="none",
            metadata={"kind": "topic"},
            output_modalities=["text"],
            instructions="Name the topic.",
            input=[{"type": "item_reference", "id": item.id}],
        )
        assert (response.status, response.conversation_id, response.metadata) == ("completed", None, {"kind": "topic"})
        session.connection.conversation.item.retrieve(item_id=response.output[0].id)
        assert session.until("error").error.code == "item_retrieve_invalid_item_id"
        assert session.respond(output_modalities=["text"]).conversation_id.startswith("conv_")


@WHO
def test_audio_is_cleared_and_committed(talk, who):
    with talk(who) as session:
        session.configure(audio={"input": {"turn_detection": None}})
        session.speak("never mind")
        session.connection.input_audio_buffer.clear()
        session.until("input_audio_buffer.cleared")
        session.connection.input_audio_buffer.commit()
        assert session.until("error").error.code == "input_audio_buffer_commit_empty"
        session.speak(TEXT)
        session.connection.input_audio_buffer.commit()
        committed = session.until("input_audio_buffer.committed")
        completed = session.until("conversation.item.input_audio_transcription.completed")
        assert (completed.item_id, completed.transcript) == (committed.item_id, TEXT)
        assert completed.usage.type == "duration"
        assert completed.usage.seconds > 1.0


@WHO
def test_a_turn_ends_by_its_words_and_has_its_seconds(talk, who):
    with talk(who) as session:
        updated = session.configure(audio={"input": {"turn_detection": {"type": "semantic_vad", "eagerness": "high"}}})
        assert (updated.audio.input.turn_detection.type, updated.audio.input.turn_detection.eagerness) == (
            "semantic_vad",
            "high",
        )
        session.speak(SENTENCE)
        completed = session.until("conversation.item.input_audio_transcription.completed")
        assert completed.transcript == SENTENCE
        assert 0.5 < completed.usage.seconds < 10
        assert session.until("response.done").response.status == "completed"


@WHO
def test_an_image(talk, who):
    with talk(who) as session:
        content = [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": PNG}]
        session.connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})
        assert session.until("conversation.item.done").item.content[1].image_url == PNG
        assert session.respond(output_modalities=["text"]).status == "completed"


@WHO
def test_what_is_not_done_is_refused_by_name(talk, who):
    with talk(who) as session:
        reduction = {"type": "near_field"}
        session.connection.session.update(
            session={
                "type": "realtime",
                "instructions": "Be brief.",
                "audio": {"input": {"noise_reduction": reduction}},
            },
            event_id="mine",
        )
        error = session.until("error").error
        assert (error.code, error.param, error.event_id) == (
            "unsupported_parameter",
            "session.audio.input.noise_reduction",
            "mine",
        )
        updated = session.until("session.updated").session
        assert (updated.instructions, updated.audio.input.noise_reduction) == ("Be brief.", None)
