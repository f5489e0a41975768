import attrs
import pytest

from gw.errors import UnknownModelError, UnknownProjectError, UnknownProviderError
from gw.registry.catalog import Catalog, Model, Provider, Stack
from gw.types.entities import Project
from gw.types.secret import Secret

KEY = Secret("k")


def model(id_, modality="llm", **fields):
    provider, _, name = id_.partition("/")
    return Model(id=id_, modality=modality, provider=provider, name=name, **fields)


def catalog(*models, **fields):
    providers = {
        "openai": Provider(id="openai", type="openai", location="cloud", api_key=KEY),
        "eu": Provider(id="eu", type="openai", location="cloud", api_key=KEY),
        "groq": Provider(id="groq", type="groq", location="cloud"),
        "sim": Provider(id="sim", type="sim", location="local"),
    }
    return Catalog(
        **{"providers": providers, "models": {f"{m.modality}:{m.id}": m for m in models}, "projects": {}, **fields}
    )


PLAIN = Project(id="default")
TONES = (model("sim/tone", "stt"), model("sim/tone", "tts"))


def test_one_id_serves_two_modalities():
    built = catalog(*TONES)
    assert built.resolve("sim/tone", "stt", PLAIN) is TONES[0]
    assert built.resolve("sim/tone", "tts", PLAIN) is TONES[1]
    with pytest.raises(UnknownModelError):
        built.resolve("sim/tone", "llm", PLAIN)


def test_an_id_goes_before_a_stack_before_an_alias_before_a_bare_name():
    models = [model("sim/a"), model("sim/b"), model("sim/c", aliases=("x", "d")), model("sim/d"), model("sim/x")]
    full = catalog(*models, stacks={"x": Stack(name="x", llm="sim/b")})
    assert full.resolve("sim/a", "llm", PLAIN).id == "sim/a"
    assert full.resolve("x", "llm", PLAIN).id == "sim/b"
    assert attrs.evolve(full, stacks={}).resolve("x", "llm", PLAIN).id == "sim/c"
    assert full.resolve("d", "llm", PLAIN).id == "sim/c"
    assert full.resolve("a", "llm", PLAIN).id == "sim/a"


def test_a_stack_without_the_modality_says_nothing_about_it():
    full = catalog(model("sim/a"), stacks={"x": Stack(name="x", stt="sim/tone")})
    with pytest.raises(UnknownModelError):
        full.resolve("x", "llm", PLAIN)


@pytest.mark.parametrize("name", ["", "default"])
def test_no_model_named(name):
    full = catalog(
        *(model("sim/a"), model("sim/b"), model("sim/c")),
        stacks={"s": Stack(name="s", llm="sim/c")},
        chains={"llm": ("sim/b", "sim/a")},
    )
    assert full.resolve(name, "llm", Project(id="p", default_stack="s")).id == "sim/c"
    assert full.resolve(name, "llm", PLAIN).id == "sim/b"
    assert full.resolve(name, "llm", Project(id="p", fallbacks={"llm": ("sim/a",)})).id == "sim/a"
    assert catalog(model("sim/a")).resolve(name, "llm", PLAIN).id == "sim/a"
    with pytest.raises(UnknownModelError):
        attrs.evolve(full, chains={}).resolve(name, "llm", PLAIN)


def test_a_bare_name_is_looked_for_at_the_dialect_s_own_provider_first():
    same = [model("sim/m"), model("eu/m"), model("openai/m"), model("groq/only")]
    full = catalog(*same)
    assert full.resolve("m", "llm", PLAIN, dialect_provider="openai").id == "openai/m"
    assert full.resolve("m", "llm", PLAIN, dialect_provider="sim").id == "sim/m"
    assert catalog(*same[:2]).resolve("m", "llm", PLAIN, dialect_provider="openai").id == "eu/m"
    assert full.resolve("only", "llm", PLAIN, dialect_provider="openai").id == "groq/only"
    with pytest.raises(UnknownModelError):
        full.resolve("m", "llm", PLAIN)


def test_a_name_only_an_absent_vendor_knows_means_the_default():
    full = attrs.evolve(catalog(model("sim/m"), model("sim/n")), chains={"llm": ("sim/n",)})
    assert full.resolve("nova-3", "llm", PLAIN, dialect_provider="deepgram").id == "sim/n"
    assert full.resolve("m", "llm", PLAIN, dialect_provider="deepgram").id == "sim/m"
    for name, dialect in (("nova-3", "sim"), ("nova-3", "groq"), ("nova-3", ""), ("sim/nova-3", "deepgram")):
        with pytest.raises(UnknownModelError):
            full.resolve(name, "llm", PLAIN, dialect_provider=dialect)


def test_a_name_that_is_not_listed_goes_to_the_vendor_of_the_protocol():
    full = catalog(model("sim/m"), model("groq/both"), model("sim/both"), chains={"llm": ("sim/m",)})
    unlisted = full.resolve("gpt-4.1-nano", "llm", PLAIN, dialect_provider="openai")
    assert (unlisted.id, unlisted.provider, full.is_listed(unlisted)) == ("openai/gpt-4.1-nano", "openai", False)
    assert [m.id for m in full.candidates(unlisted, PLAIN)] == ["openai/gpt-4.1-nano", "sim/m"]
    assert full.resolve("m", "llm", PLAIN, dialect_provider="openai").id == "sim/m"
    for name in ("cohere/x", "openai/gpt-4.1-nano", "x" * 129, "line\nbreak"):
        with pytest.raises((UnknownModelError, UnknownProviderError)):
            full.resolve(name, "llm", PLAIN, dialect_provider="openai")
    own_key = Project(id="p", provider_keys={"groq": KEY})
    assert full.resolve("new", "llm", own_key, dialect_provider="groq").id == "groq/new"
    with pytest.raises(UnknownModelError):
        full.resolve("new", "llm", PLAIN, dialect_provider="groq")


def test_a_vendor_s_own_name_with_a_slash_goes_to_that_vendor():
    groq = Provider(id="groq", type="groq", location="cloud", api_key=KEY)
    openai = Provider(id="openai", type="openai", location="cloud", api_key=KEY)
    eu = Provider(id="eu", type="openai", location="cloud", api_key=KEY)
    full = catalog(model("openai/m"), providers={"groq": groq, "openai": openai, "eu": eu})
    for name in ("meta-llama/llama-4-scout-17b-16e-instruct", "openai/gpt-oss-120b"):
        assert full.resolve(name, "llm", PLAIN, dialect_provider="groq").id == f"groq/{name}"
        with pytest.raises((UnknownModelError, UnknownProviderError)):
            full.resolve(name, "llm", PLAIN, dialect_provider="openai")
        with pytest.raises((UnknownModelError, UnknownProviderError)):
            attrs.evolve(full, unlisted_models=False).resolve(name, "llm", PLAIN, dialect_provider="groq")
    assert full.resolve("openai/m", "llm", PLAIN, dialect_provider="groq").id == "openai/m"
    for name in ("groq/x", "eu/x", "/x", "x/"):
        with pytest.raises((UnknownModelError, UnknownProviderError)):
            full.resolve(name, "llm", PLAIN, dialect_provider="groq")


def test_no_model_named_means_the_vendor_of_the_protocol_first():
    elevenlabs = Provider(id="elevenlabs", type="elevenlabs", location="cloud", api_key=KEY)
    sim = Provider(id="sim", type="sim", location="local")
    listed = (model("sim/tone", "tts"), model("elevenlabs/eleven_flash_v2_5", "tts"))
    providers = {"sim": sim, "elevenlabs": elevenlabs}
    chain = {"tts": ("sim/tone", "elevenlabs/eleven_flash_v2_5")}
    resolve = catalog(*listed, providers=providers, chains=chain).resolve
    assert resolve("", "tts", PLAIN, dialect_provider="elevenlabs").id == "elevenlabs/eleven_flash_v2_5"
    assert resolve("", "tts", PLAIN, dialect_provider="openai").id == "sim/tone"
    resolve = catalog(listed[0], providers=providers, chains={"tts": ("sim/tone",)}).resolve
    assert resolve("", "tts", PLAIN, dialect_provider="elevenlabs").id == "elevenlabs/eleven_multilingual_v2"
    assert catalog(listed[0], chains=chain).resolve("", "tts", PLAIN, dialect_provider="elevenlabs").id == "sim/tone"
    vendors = ("deepgram", "assemblyai", "cartesia", "elevenlabs")
    cloud = {name: Provider(id=name, type=name, location="cloud", api_key=KEY) for name in vendors}
    listed = (listed[0], model("sim/tone", "stt"))
    chain = {"tts": ("sim/tone",), "stt": ("sim/tone",)}
    resolve = catalog(*listed, providers={"sim": sim, **cloud}, chains=chain).resolve
    assert resolve("", "tts", PLAIN, dialect_provider="deepgram").id == "deepgram/aura-asteria-en"
    found = {vendor: resolve("", "stt", PLAIN, dialect_provider=vendor).id for vendor in vendors}
    assert found == {
        "deepgram": "deepgram/base-general", "assemblyai": "assemblyai/universal-3-5-pro",
        "cartesia": "sim/tone", "elevenlabs": "sim/tone",  # these two document no default
    }


def test_unknown_names_suggest_what_is_near():
    with pytest.raises(UnknownModelError, match=r"available: sim/echo; did you mean sim/echo\?"):
        catalog(model("sim/echo")).resolve("ecoh", "llm", PLAIN)


def test_of_two_bare_names_the_configured_one_is_meant():
    assert catalog(model("groq/m"), model("openai/m")).resolve("m", "llm", PLAIN).id == "openai/m"


def test_a_bare_name_may_hold_a_slash():
    assert catalog(model("groq/openai/oss")).resolve("openai/oss", "llm", PLAIN).id == "groq/openai/oss"


def test_unknown_names_list_the_known_ones():
    full = catalog(model("sim/a"), *TONES)
    with pytest.raises(UnknownModelError) as raised:
        full.resolve("sim/zzz", "llm", PLAIN)
    assert raised.value.available == ("sim/a",)
    with pytest.raises(UnknownProviderError) as raised_provider:
        full.resolve("cohere/x", "llm", PLAIN)
    assert (raised_provider.value.name, raised_provider.value.available[0]) == ("cohere", "openai")
    with pytest.raises(UnknownProviderError):
        full.provider("cohere")
    with pytest.raises(UnknownProjectError):
        full.project("nobody")


def test_candidates():
    a, b, c = models = (model("sim/a"), model("sim/b"), model("sim/c"))
    full = catalog(*models, chains={"llm": ("sim/b", "sim/a", "sim/gone")})
    assert full.candidates(a, PLAIN) == (a, b)
    assert full.candidates(c, PLAIN) == (c, b, a)
    assert full.candidates(c, PLAIN, fallback=False) == (c,)
    assert full.candidates(c, Project(id="p", fallbacks={"llm": ("sim/a",)})) == (c, a)
    assert full.candidates(c, Project(id="p", fallbacks={"llm": ()})) == (c,)
    assert full.candidates(TONES[0], PLAIN) == (TONES[0],)


def test_configured():
    cloud = Provider(id="p", type="openai", location="cloud")
    assert not cloud.configured
    assert attrs.evolve(cloud, api_key=KEY).configured
    assert not attrs.evolve(cloud, api_key=KEY, enabled=False).configured
    assert not attrs.evolve(cloud, api_key=KEY, key_error="cannot be read").configured
    assert attrs.evolve(cloud, location="local").configured


def test_livekits_inference_chooses_a_vendor_for_a_client_that_names_no_model():
    providers = {
        "mine": Provider(id="mine", type="deepgram", location="cloud"),
        "aai": Provider(id="aai", type="assemblyai", location="cloud", api_key=KEY),
        "dg": Provider(id="dg", type="deepgram", location="cloud", api_key=KEY),
    }
    empty = Catalog(providers=providers, models={}, projects={})
    assert empty.resolve("", "stt", PLAIN, dialect_provider="livekit").id == "aai/universal-3-5-pro"  # the first one with a key
    assert empty.resolve("", "tts", PLAIN, dialect_provider="livekit").id == "dg/aura-asteria-en"
    for modality, dialect in (("llm", "livekit"), ("stt", "openai")):
        with pytest.raises(UnknownModelError):
            empty.resolve("", modality, PLAIN, dialect_provider=dialect)
    listed = attrs.evolve(empty, models={"stt:dg/nova-3": model("dg/nova-3", "stt")})
    assert listed.resolve("", "stt", PLAIN, dialect_provider="livekit").id == "dg/nova-3"
