import pytest

from gw.pricing.rate_tables import load_book, parse_table, shipped_rows, table_texts
from gw.types.usage import Cost, Usage

DAY = 20_777  # 2026-11-20
ROW = '[[rate]]\nmodel = "m"\nunit = "minute"\nusd = "0.6"\nvalid_from = 2026-01-02\nsource = "s"\nseen = 2026-11-20\n'


def test_a_row():
    (row,) = parse_table("acme.toml", ROW)
    assert (row.provider_type, row.model, row.price.audio_seconds) == ("acme", "m", 10_000_000_000_000)
    assert (row.price.source, row.price.valid_from) == ("table:acme@2026-01-02", 20_455)


def test_two_units_of_one_model_are_one_price():
    more = ROW.replace("minute", "1M_characters").replace("0.6", "15")
    (row,) = parse_table("acme.toml", ROW + more)
    assert (row.price.audio_seconds, row.price.characters) == (10_000_000_000_000, 15_000_000_000)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (ROW + "x = [", r"acme\.toml: "),
        (ROW + "[other]", "only .* are expected, found other"),
        ('rate = "a"', "a single rate"),
        (ROW + ROW, r"rate 2 \(m\): a second row"),
        (ROW.replace('"0.6"', "0.6"), r"rate 1 \(m\): usd must be a decimal in quotes"),
        (ROW.replace("0.6", "ten"), "usd is not a decimal: 'ten'"),
        (ROW.replace("0.6", "-1"), "usd must be 0 or more"),
        (ROW.replace("minute", "day"), "unknown unit 'day'"),
        (ROW.replace("usd", "usb"), "unknown field `usb`"),
        (ROW.replace('source = "s"\n', ""), "missing required field `source`"),
        (ROW.replace('model = "m"\n', ""), r"rate 1 \(no model\): .*missing required field `model`"),
        (ROW.replace("seen = 2026-11-20", 'seen = "today"'), r"date.*\$\.seen"),
        (ROW.replace("valid_from = 2026-01-02", "valid_from = 2026-01-02T00:00:00"), r"date.*\$\.valid_from"),
    ],
)
def test_a_bad_table_names_file_and_row(text, what):
    with pytest.raises(ValueError, match=what) as raised:
        parse_table("acme.toml", text)
    assert str(raised.value).startswith("acme.toml: ")


@pytest.mark.parametrize(
    ("provider_type", "model", "usage", "nusd"),
    [
        ("openai", "gpt-4o-mini", Usage(input_tokens=1_000, cached_input_tokens=400, output_tokens=100), 180_000),
        ("openai", "gpt-4o-2024-08-06", Usage(input_tokens=1_000), 2_500_000),
        ("openai", "gpt-4o-2024-05-13", Usage(input_tokens=1_000), 5_000_000),
        ("openai", "whisper-1", Usage(audio_seconds=60), 6_000_000),
        ("openai", "gpt-4o-transcribe", Usage(audio_seconds=60), 6_000_000),
        ("openai", "gpt-4o-transcribe", Usage(audio_seconds=60, input_tokens=600, input_audio_tokens=580), 1_500_000),
        ("openai", "tts-1", Usage(characters=28, audio_seconds=1.6), 420_000),
        ("openai", "gpt-4o-mini-tts", Usage(characters=28, audio_seconds=1.6), 400_000),
        ("openai", "gpt-4o-mini-tts", Usage(input_tokens=8, output_tokens=40, output_audio_tokens=40), 484_800),
        ("groq", "whisper-large-v3", Usage(audio_seconds=2), 308_333),
        ("groq", "openai/gpt-oss-20b", Usage(input_tokens=1_000, output_tokens=1_000), 375_000),
        ("sim", "tone", Usage(characters=28, audio_seconds=1.6), 420_000),
        ("sim", "tone", Usage(audio_seconds=1.6), 120_000),
        ("sim", "flaky", Usage(input_tokens=10, output_tokens=10), 5_000),
    ],
)
def test_list_prices(provider_type, model, usage, nusd):
    book = load_book()
    cost = book.cost(usage, book.price(provider_type, model, at_day=DAY), local=provider_type == "sim")
    assert cost.nusd == nusd
    assert cost.source.startswith(f"table:{provider_type}@")


@pytest.mark.parametrize("provider_type", ["whisper", "kokoro", "ollama"])
def test_local_engines_have_no_price(provider_type):
    book = load_book()
    price = book.price(provider_type, "anything", at_day=DAY)
    assert book.cost(Usage(input_tokens=5, characters=5), price, local=True) == Cost(nusd=0, source="local")


def test_another_model_of_a_family_is_unpriced_not_mispriced():
    book = load_book()
    for name in ("gpt-5.5-pro", "gpt-4o-audio-preview", "gpt-4o-mini-realtime-preview", "tts-1-large"):
        assert book.price("openai", name, at_day=DAY) is None


def test_a_model_for_live_sessions_alone_has_a_price():
    book = load_book()
    assert book.price("deepgram", "flux-general-en", at_day=DAY) is None
    assert book.any_price("deepgram", "flux-general-en", at_day=DAY) == book.price("deepgram", "flux-general-en", at_day=DAY, live=True)
    assert book.any_price("deepgram", "nova-3", at_day=DAY) == book.price("deepgram", "nova-3", at_day=DAY)
    assert book.any_price("deepgram", "never-heard-of", at_day=DAY) is None


def test_a_table_of_ones_own_is_read_anew_each_time(tmp_path):
    assert load_book(tmp_path).price("sim", "m", at_day=DAY) is None
    table = tmp_path / "sim.toml"
    for usd, rate in (("0.6", 10_000_000_000_000), ("1.2", 20_000_000_000_000)):
        table.write_text(ROW.replace("0.6", usd))
        price = load_book(tmp_path).price("sim", "m", at_day=DAY)
        assert price is not None
        assert price.audio_seconds == rate
    table.unlink()
    assert load_book(tmp_path).price("sim", "m", at_day=DAY) is None


def test_a_book_has_the_rates_of_every_shipped_table():
    book = load_book()
    for name, text in table_texts():
        provider_type = name.removesuffix(".toml")
        rows = parse_table(name, text)
        assert book.names(provider_type) == sorted({row.model for row in rows})
        assert list(shipped_rows(provider_type)) == rows
    assert shipped_rows("sherpa") == ()
