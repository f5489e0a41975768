"""The engines' real libraries in processes of ours, with models made here that hum: what they are given is what they take.

Speech models are not at hand, so faster-whisper is held to the calls we make by its signatures.
"""

from __future__ import annotations

import inspect
import json

import faster_whisper
import numpy
import onnx
import pytest
import trio
from onnx import TensorProto, helper

from gw.engines import faster_whisper as whisper_engine
from gw.engines import kokoro_onnx, piper_tts
from gw.engines.engine_client import engine_process
from gw.errors import ProviderFailed, ProviderRejected
from gw.net.http1 import Origin, Pool
from gw.providers import kokoro as kokoro_provider
from gw.providers import piper as piper_provider
from gw.providers.spec import Account, spec_of
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.secret import Secret
from gw.types.tts import SpeakRequest
from gw.wire import wyoming
from tests.fakes.recording import spoken

pytestmark = pytest.mark.clients

SAMPLES_PER_TOKEN = 600


def humming(path, ids, others, shape):
    """An ONNX model: every token is a wave, as loud as its number."""
    wave = numpy.sin(numpy.arange(SAMPLES_PER_TOKEN) / 5).astype(numpy.float32) / 200
    constants = [
        helper.make_tensor("axes", TensorProto.INT64, [1], [2]),
        helper.make_tensor("wave", TensorProto.FLOAT, [1, 1, SAMPLES_PER_TOKEN], wave),
        helper.make_tensor("shape", TensorProto.INT64, [len(shape)], shape),
    ]
    nodes = [
        helper.make_node("Cast", [ids], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["floats", "axes"], ["columns"]),
        helper.make_node("Mul", ["columns", "wave"], ["waves"]),
        helper.make_node("Reshape", ["waves", "shape"], ["output"]),
    ]
    inputs = [helper.make_tensor_value_info(ids, TensorProto.INT64, [1, None])]
    inputs += [helper.make_tensor_value_info(name, kind, dims) for name, kind, dims in others]
    outputs = [helper.make_tensor_value_info("output", TensorProto.FLOAT, [None] * len(shape))]
    graph = helper.make_graph(nodes, "humming", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)


def account(provider_type, **options):
    spec = spec_of(provider_type)
    return Account(
        provider_id="p", model="m", origin=spec.origin("p", None, options), api_key=Secret(""), pool=Pool(), options=options
    )


def request(**more):
    return SpeakRequest(**{"model": "m", "text": "Hello there, how are you?", "format": PCM_24K, **more})


@pytest.fixture
def kokoro_files(tmp_path):
    model, voices = tmp_path / "kokoro.onnx", tmp_path / "voices.bin"
    humming(model, "tokens", [("style", TensorProto.FLOAT, [1, 256]), ("speed", TensorProto.FLOAT, [1])], [-1])
    with voices.open("wb") as file:
        numpy.savez(file, af_heart=numpy.zeros((510, 1, 256), numpy.float32), bf_emma=numpy.zeros((510, 1, 256), numpy.float32))
    return {"model_path": model, "voices_path": voices, "device": "cpu"}


async def test_kokoro_onnx(kokoro_files):
    made = account("kokoro", **kokoro_files)
    with trio.fail_after(120):
        await kokoro_provider.check(made)
        fmt, sound = await spoken(kokoro_provider.speak(request(voice="bf_emma"), made))
        assert fmt == PCM_24K
        assert 0.2 < fmt.seconds(len(sound)) < 5
        assert max(numpy.abs(numpy.frombuffer(sound, "<i2"))) > 1_000
        with pytest.raises(ProviderRejected):
            await spoken(kokoro_provider.speak(request(voice="nobody"), made))
    assert engine_process(kokoro_onnx, kokoro_files, "p").info.voices == ("af_heart", "bf_emma")


async def test_piper(tmp_path):
    model = tmp_path / "en_US-hum-low.onnx"
    others = [("input_lengths", TensorProto.INT64, [1]), ("scales", TensorProto.FLOAT, [3])]
    humming(model, "input", others, [1, 1, 1, -1])
    phonemes = {chr(code): [code % 200] for code in (*range(32, 127), *range(0x250, 0x2B0), 0x2C8, 0x2CC, 0x2D0)}
    settings = {
        "audio": {"sample_rate": 16_000}, "espeak": {"voice": "en-us"}, "num_symbols": 256, "num_speakers": 1,
        "phoneme_id_map": {**phonemes, "_": [0], "^": [1], "$": [2]},
        "inference": {"noise_scale": 0.667, "length_scale": 1.0, "noise_w": 0.8},
    }  # fmt: skip
    (tmp_path / "en_US-hum-low.onnx.json").write_text(json.dumps(settings))
    made = account("piper", model_path=model)
    with trio.fail_after(120):
        await piper_provider.check(made)
        fmt, sound = await spoken(piper_provider.speak(request(), made))
        assert fmt == AudioFormat(encoding="pcm_s16le", sample_rate_hz=16_000)
        assert 0.2 < fmt.seconds(len(sound)) < 5
        origin = Origin.parse(await piper_tts.address("p", made.options))
        async with made.pool.open("p", b"POST", origin, b"/synthesize", [], b"{}") as response:
            assert response.status == 500   # the server's own word for a body without text
    await made.pool.aclose()


def test_the_calls_made_to_faster_whisper():
    model = inspect.signature(faster_whisper.WhisperModel.__init__).parameters
    assert {"model_size_or_path", "device", "compute_type", "local_files_only"} <= model.keys()
    call = inspect.signature(faster_whisper.WhisperModel.transcribe).parameters
    used = {"audio", "language", "task", "initial_prompt", "word_timestamps", "vad_filter", "temperature"}
    assert used <= call.keys()
    assert isinstance(faster_whisper.WhisperModel.supported_languages, property)
    segment = faster_whisper.transcribe.Segment.__dataclass_fields__.keys()
    assert {"text", "start", "end", "words"} <= segment
    assert {"word", "start", "end", "probability"} <= faster_whisper.transcribe.Word.__dataclass_fields__.keys()
    assert {"language", "duration"} <= faster_whisper.transcribe.TranscriptionInfo.__dataclass_fields__.keys()


async def test_a_folder_without_a_model_is_told(tmp_path):
    made = engine_process(whisper_engine, {"model_path": tmp_path, "device": "cpu"}, "p")
    with trio.fail_after(120), pytest.raises(ProviderFailed, match="its engine cannot load: "):
        await made.wait_ready("p")
    assert made.info == wyoming.Info()
