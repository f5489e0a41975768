"""Accounts of Google Cloud: which headers a key gives, and which project and host a request goes to."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from functools import cache

import attrs
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from joserfc import jwt
from joserfc.jwk import RSAKey

from gw.errors import ProviderRejected
from gw.providers import google_account
from gw.types.secret import Secret

EMAIL = "voice@acme-voice.iam.gserviceaccount.com"


@cache
def private_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65_537, key_size=2_048)


def key_file(**more: str) -> str:
    pem = private_key().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    return json.dumps({
        "type": "service_account", "project_id": "acme-voice", "private_key_id": "k1", "private_key": pem, "client_email": EMAIL, **more,
    })  # fmt: skip


def claims_in(headers: list[tuple[bytes, bytes]]) -> tuple[dict[str, object], dict[str, object]]:
    """Return the header and the claims of a token that the service account's public key verifies."""
    ((name, value),) = headers
    assert name == b"authorization"
    public = RSAKey.import_key(private_key().public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    ).decode())  # fmt: skip
    token = jwt.decode(value.decode().removeprefix("Bearer "), public, algorithms=["RS256"])
    return dict(token.header), dict(token.claims)


@pytest.fixture
def account(account_at):
    return attrs.evolve(account_at("google_cloud", base_url="https://us-texttospeech.googleapis.com"), api_key=Secret("an-api-key"))


def with_key(account, key):
    return attrs.evolve(account, api_key=Secret(key), call_state={})


async def test_an_api_key(account):
    assert google_account.key_headers(account) == [(b"x-goog-api-key", b"an-api-key")]
    assert google_account.key_headers(with_key(account, "")) == []


@pytest.mark.parametrize("form", [str, lambda text: b64encode(text.encode()).decode()])
async def test_the_key_of_a_service_account(account, form):
    account = with_key(account, form(key_file()))
    before = int(time.time())
    headers = google_account.key_headers(account)
    header, claims = claims_in(headers)
    assert (header["alg"], header["kid"], header["typ"]) == ("RS256", "k1", "JWT")
    assert (claims["iss"], claims["sub"], claims["scope"]) == (EMAIL, EMAIL, "https://www.googleapis.com/auth/cloud-platform")
    assert claims["exp"] - claims["iat"] == 3_600
    assert before <= claims["iat"] <= int(time.time())
    assert google_account.key_headers(account) == headers
    assert google_account.project_of(account) == "acme-voice"


async def test_a_token_goes_with_its_key(account):
    first = with_key(account, key_file())
    headers = google_account.key_headers(first)
    other = attrs.evolve(first, api_key=Secret(key_file(client_email="other@acme-voice.iam.gserviceaccount.com")))
    assert claims_in(google_account.key_headers(other))[1]["iss"] == "other@acme-voice.iam.gserviceaccount.com"
    assert claims_in(headers)[1]["iss"] == EMAIL


async def test_a_token_that_is_about_to_end_is_replaced(account):
    account = with_key(account, key_file())
    google_account.key_headers(account)
    (state,) = account.call_state
    first = account.call_state[state] = attrs.evolve(account.call_state[state], text=Secret("old"), until=time.time() + 599)
    claims_in(google_account.key_headers(account))
    assert account.call_state[state].signer is first.signer  # to read and check the private key takes long


async def test_the_private_key_is_in_no_repr(account):
    account = with_key(account, key_file())
    headers = google_account.key_headers(account)
    shown = repr(account.call_state) + repr(google_account._key_file(account))
    assert "PRIVATE" not in shown
    assert headers[0][1].decode().removeprefix("Bearer ") not in shown


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ('{"a": 1}', "not the key of a service account"), ('{"type"', "not the key of a service account"),
        (key_file(type="authorized_user"), "other than service_account"), (key_file(private_key="x"), "cannot sign"),
    ],
)  # fmt: skip
async def test_keys_that_are_no_use(account, key, words):
    with pytest.raises(ProviderRejected, match=words) as caught:
        google_account.key_headers(with_key(account, key))
    assert (caught.value.upstream_status, caught.value.fault) == (401, "candidate")


async def test_the_project(account):
    with pytest.raises(ProviderRejected, match="no project"):
        google_account.project_of(account)
    assert google_account.project_of(attrs.evolve(account, options={"project": "acme"})) == "acme"
    own = attrs.evolve(with_key(account, key_file()), options={"project": "12345"})
    assert google_account.project_of(own) == "12345"
    for bad in ("../x", "a/b", ""):
        with pytest.raises(ProviderRejected):
            google_account.project_of(attrs.evolve(account, options={"project": bad}))


@pytest.mark.parametrize(
    ("address", "service", "host", "location"),
    [
        ("https://texttospeech.googleapis.com", "speech", "speech.googleapis.com", "global"),
        ("https://us-texttospeech.googleapis.com", "speech", "us-speech.googleapis.com", "us"),
        ("https://europe-west4-speech.googleapis.com", "texttospeech", "europe-west4-texttospeech.googleapis.com", "europe-west4"),
        ("https://speech.googleapis.com", "speech", "speech.googleapis.com", "global"),
        ("https://proxy.example", "speech", "proxy.example", "global"),
    ],
)
async def test_the_host_of_a_service(account_at, address, service, host, location):
    account = account_at("google_cloud", base_url=address)
    moved = google_account.at_service(account, service)
    assert (moved.origin.host, google_account.location_of(account), google_account.location_of(moved)) == (host, location, location)
