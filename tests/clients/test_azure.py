"""`AzureOpenAI` of OpenAI's SDK, unchanged: its endpoint, key and deployment are ours."""

from __future__ import annotations

import openai
import pytest

from tests.clients.gateway_pair import TEXT

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("named", ["in the client", "in each call"])
def test_azure_client(demo, named):
    def client(model: str) -> openai.AzureOpenAI:
        deployment = model if named == "in the client" else None
        return openai.AzureOpenAI(
            azure_endpoint=demo.daemon.url, api_key="any", api_version="2026-10-01", azure_deployment=deployment, max_retries=0
        )

    question: list = [{"role": "user", "content": TEXT}]
    with client("sim/echo") as azure:
        whole = azure.chat.completions.create(model="sim/echo", messages=question)
        assert whole.choices[0].message.content == TEXT
        pieces = azure.chat.completions.create(model="sim/echo", messages=question, stream=True)
        assert "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices) == TEXT
        assert azure.responses.create(model="sim/echo", input=TEXT).output_text == TEXT
        assert "sim/echo" in [model.id for model in azure.models.list()]
    with client("sim/tone") as azure:
        spoken = azure.audio.speech.create(model="sim/tone", voice="alloy", input=TEXT, response_format="wav").read()
        assert azure.audio.transcriptions.create(model="sim/tone", file=("a.wav", spoken)).text == TEXT


def test_the_path_names_the_model(demo):
    """Whatever the body says; an unknown deployment is OpenAI's own 404."""
    with openai.AzureOpenAI(
        azure_endpoint=demo.daemon.url, api_key="any", api_version="v", azure_deployment="sim/echo", max_retries=0
    ) as azure:
        answer = azure.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": TEXT}])
        assert answer.choices[0].message.content == TEXT
    with openai.AzureOpenAI(
        azure_endpoint=demo.daemon.url, api_key="any", api_version="v", azure_deployment="nobody", max_retries=0
    ) as azure, pytest.raises(openai.NotFoundError) as caught:
        azure.chat.completions.create(model="sim/echo", messages=[{"role": "user", "content": TEXT}])
    assert caught.value.code == "model_not_found"


def test_azure_realtime(demo):
    """A session of the conversation; the SDK would use wss, so the address of its socket is named."""
    socket = demo.daemon.url.replace("http://", "ws://") + "/openai"
    with openai.AzureOpenAI(
        azure_endpoint=demo.daemon.url, api_key="any", api_version="v", websocket_base_url=socket
    ) as azure, azure.realtime.connect(model="sim/echo") as connection:
        created = connection.recv()
        assert created.type == "session.created"
        assert created.session.model == "sim/echo"
