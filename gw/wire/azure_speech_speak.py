"""Azure Speech's text to speech, `POST /cognitiveservices/v1`: both roles.

Source: the vendor's pages "Text to speech REST API", "Text to speech overview" (billable characters), "Customize voice and sound"
and "High definition voices" (MicrosoftDocs/azure-ai-docs, 2025 and 2026), livekit-plugins-azure 1.8.9 (`tts.py`). The text goes as
SSML; the header `X-Microsoft-OutputFormat` names the format, and the body of the answer is the audio. An error is known by its
status; the vendor's pages describe no body of it.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

from gw.errors import ClientProtocolError
from gw.types.audio import AudioFormat, Encoding
from gw.types.tts import SpeakRequest
from gw.wire.query import bare_language

PATH = "/cognitiveservices/v1"
VOICES_PATH = "/cognitiveservices/voices/list"
FORMAT_HEADER = "x-microsoft-outputformat"
NEURAL, NEURAL_HD = "neural", "neural-hd"
_HD = ":dragonhd"
"""In the name of a voice of high definition: `en-US-Ava:DragonHDLatestNeural`."""
_KHZ = {8_000: "8khz", 16_000: "16khz", 22_050: "22050hz", 24_000: "24khz", 44_100: "44100hz", 48_000: "48khz"}
RATES_HZ = frozenset(_KHZ)
ENCODINGS: frozenset[Encoding] = frozenset({"pcm_s16le", "mulaw", "alaw", "mp3"})
_MP3_KBIT_PER_S = {16_000: (32, 64, 128), 24_000: (48, 96, 160), 48_000: (96, 192)}
_USUAL_MP3 = (24_000, 96)
_RATES = (0.5, 2.0)
"""Slowest and fastest `rate` of `prosody`, as a factor of the voice's own."""
_NAMESPACE = "http://www.w3.org/2001/10/synthesis"
_IDEOGRAPH = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


def model_of(voice: str) -> str:
    """Return the model, which is the vendor's name of a price, that a voice belongs to."""
    return NEURAL_HD if _HD in voice.lower() else NEURAL


def locale_of(voice: str) -> str:
    """Return the locale that the name of a voice begins with; "" for a name without one."""
    named = re.match(r"(?i)[a-z]{2,3}(-[a-z]{4})?-[a-z]{2}(?=-)", voice)
    return named[0] if named is not None else ""


def takes_speed(model: str) -> bool:
    """Return whether voices of a model have a setting of speed; those of high definition have not."""
    return model == NEURAL


def speaks(language: str | None, voice: str) -> bool:
    """Return whether a voice speaks this language: its own, or any if it is multilingual. Of another name the vendor decides."""
    named = bare_language(locale_of(voice))
    return named in (None, bare_language(language)) or "Multilingual" in voice or model_of(voice) == NEURAL_HD


def billed_characters(request: SpeakRequest) -> int:
    """Return how many characters the vendor bills: the text and the markup within the voice, and Chinese characters twice."""
    before, after = _markup(request)
    return len(before) + len(after) + len(request.text) + len(_IDEOGRAPH.findall(request.text))


def takes_mp3(fmt: AudioFormat) -> bool:
    """Return whether the vendor has MP3 of this sample rate and bit rate."""
    rate_hz, kbit_per_s = _mp3(fmt)
    return (fmt.sample_rate_hz or rate_hz, fmt.kbit_per_s or kbit_per_s) == (rate_hz, kbit_per_s)


def _mp3(fmt: AudioFormat) -> tuple[int, int]:
    usual_hz, usual_kbit_per_s = _USUAL_MP3
    rate_hz = fmt.sample_rate_hz if fmt.sample_rate_hz in _MP3_KBIT_PER_S else usual_hz
    rates = _MP3_KBIT_PER_S[rate_hz]
    return rate_hz, fmt.kbit_per_s if fmt.kbit_per_s in rates else usual_kbit_per_s if usual_kbit_per_s in rates else rates[-1]


def made_format(fmt: AudioFormat) -> AudioFormat:
    """Return the format that the vendor makes for a request: of raw samples the rate if it has it, else 48 or 24 kHz."""
    if fmt.encoding == "mp3":
        return fmt
    usual_hz = 48_000 if fmt.sample_rate_hz > 24_000 else 24_000
    rate_hz = 8_000 if fmt.encoding != "pcm_s16le" else fmt.sample_rate_hz if fmt.sample_rate_hz in _KHZ else usual_hz
    return AudioFormat(encoding=fmt.encoding, sample_rate_hz=rate_hz)


# ---- client


def output_format(fmt: AudioFormat) -> str:
    """Return the value of `X-Microsoft-OutputFormat`."""
    fmt = made_format(fmt)
    match fmt.encoding:
        case "mulaw" | "alaw":
            return f"raw-8khz-8bit-mono-{fmt.encoding}"
        case "mp3":
            rate_hz, kbit_per_s = _mp3(fmt)
            return f"audio-{_KHZ[rate_hz]}-{kbit_per_s}kbitrate-mono-mp3"
    return f"raw-{_KHZ[fmt.sample_rate_hz]}-16bit-mono-pcm"


def body(request: SpeakRequest) -> bytes:
    """Return the SSML. The language is named where it is not that of the voice, and the speed as a factor of the voice's own."""
    locale = locale_of(request.voice) or "en-US"
    before, after = _markup(request)
    text = escape("".join(filter(_is_xml, request.text)))
    voice = f"<voice name={quoteattr(request.voice)}>{before}{text}{after}</voice>"
    return f'<speak version="1.0" xmlns="{_NAMESPACE}" xml:lang={quoteattr(locale)}>{voice}</speak>'.encode()


def _markup(request: SpeakRequest) -> tuple[str, str]:
    """Return the tags before and after the text."""
    before, after = "", ""
    if request.language and bare_language(request.language) != bare_language(locale_of(request.voice) or "en-US"):
        before, after = f"<lang xml:lang={quoteattr(request.language)}>", "</lang>"
    if request.speed and takes_speed(model_of(request.voice)):
        slowest, fastest = _RATES
        before, after = f'{before}<prosody rate="{min(fastest, max(slowest, request.speed)):g}">', f"</prosody>{after}"
    return before, after


def _is_xml(character: str) -> bool:
    """Return whether XML 1.0 can hold a character; most control characters it cannot, not even escaped."""
    return character in "\t\n\r" or " " <= character <= "\ud7ff" or "\ue000" <= character <= "\ufffd" or character >= "\U00010000"


# ---- server

_FORMAT = re.compile(r"(raw|audio)-(\d+)(khz|hz)-(?:(16bit|8bit)|(\d+)kbitrate)-mono-(pcm|mulaw|alaw|mp3)")
_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


def parse(format_name: str, received: bytes) -> SpeakRequest:
    """Decode a request. Raises ClientProtocolError, with `param`."""
    try:
        root = ElementTree.fromstring(received)
    except ElementTree.ParseError:
        raise ClientProtocolError(what="the body is not SSML", param="body") from None
    voice = root.find(f"{{{_NAMESPACE}}}voice")
    if voice is None or not voice.get("name"):
        raise ClientProtocolError(what="the SSML has no voice", param="voice")
    if not (text := "".join(voice.itertext())).strip():
        raise ClientProtocolError(what="the text is empty", param="text")
    prosody, lang = (next(voice.iter(f"{{{_NAMESPACE}}}{name}"), None) for name in ("prosody", "lang"))
    name = voice.get("name", "")
    return SpeakRequest(
        model=model_of(name), text=text, voice=name, format=_parse_format(format_name), dialect="azure_speech",
        language=lang.get(_XML_LANG) if lang is not None else None,
        speed=float(prosody.get("rate", "1")) if prosody is not None else None,
    )  # fmt: skip


def _parse_format(name: str) -> AudioFormat:
    if (parts := _FORMAT.fullmatch(name)) is None:
        raise ClientProtocolError(what=f"{name!r} is not a format of the vendor", param=FORMAT_HEADER)
    encodings: dict[str, Encoding] = {"pcm": "pcm_s16le", "mulaw": "mulaw", "alaw": "alaw", "mp3": "mp3"}
    rate_hz = int(parts[2]) * (1_000 if parts[3] == "khz" else 1)
    fmt = AudioFormat(encoding=encodings[parts[6]], sample_rate_hz=rate_hz, kbit_per_s=int(parts[5] or 0))
    if rate_hz not in RATES_HZ or output_format(fmt) != name:
        raise ClientProtocolError(what=f"{name!r} is not a format of the vendor", param=FORMAT_HEADER)
    return fmt
