import base64
import stat

import pytest
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ConfigError, KeyDecryptError
from gw.types.secret import Secret
from gw.vault import Vault, load_secrets, new_secret, replace_secret_file

KEY = Secret("sk-canary-0123456789")
NONE = Secret("")
WHERE = {"provider": "openai", "origin": "https://api.openai.com"}


@given(st.text(min_size=1, max_size=60), st.text(max_size=60))
def test_any_string_is_a_secret(secret, key):
    vault = Vault(Secret(secret))
    assert vault.decrypt(vault.encrypt(Secret(key), **WHERE), **WHERE).reveal() == key


def test_a_derived_key_is_that_of_hkdf():
    """Against the library's own RFC 5869."""
    derive = HKDF(algorithm=hashes.SHA256(), length=32, salt=b"gw vault", info=b"fernet key v1")
    key = base64.urlsafe_b64encode(derive.derive(b"correct horse"))
    assert b"sk-canary" in Fernet(key).decrypt(Vault(Secret("correct horse")).encrypt(KEY, **WHERE))


def test_a_fernet_key_is_used_as_it_is():
    key = Fernet.generate_key()
    assert b"sk-canary" in Fernet(key).decrypt(Vault(Secret(key.decode())).encrypt(KEY, **WHERE))


def test_a_secret_from_an_environment_that_is_no_utf8():
    vault = Vault(Secret("caf\udce9"))
    assert vault.decrypt(vault.encrypt(KEY, **WHERE), **WHERE) == KEY


@pytest.mark.parametrize("elsewhere", [{"provider": "mallory"}, {"origin": "https://evil.example"}])
def test_a_key_is_bound_to_its_provider_and_origin(elsewhere):
    vault = Vault(Secret("s"))
    with pytest.raises(KeyDecryptError):
        vault.decrypt(vault.encrypt(KEY, **WHERE), **WHERE | elsewhere)


def test_another_secret_names_the_provider_and_nothing_else():
    token = Vault(Secret("old")).encrypt(KEY, **WHERE)
    with pytest.raises(KeyDecryptError, match="'openai'") as caught:
        Vault(Secret("new")).decrypt(token, **WHERE)
    assert "canary" not in str(caught.value)


@given(st.binary(max_size=100))
def test_a_damaged_token_is_undecryptable(token):
    with pytest.raises(KeyDecryptError):
        Vault(Secret("s")).decrypt(token, **WHERE)


@pytest.mark.parametrize("added", [b"+", b"/", b"!", b"\n"])
def test_a_token_with_another_letter_is_undecryptable(added):
    vault = Vault(Secret("s"))
    token = vault.encrypt(KEY, **WHERE)
    damaged = token[:20] + added + token[20:]
    with pytest.raises(KeyDecryptError):
        vault.decrypt(damaged, **WHERE)
    with pytest.raises(KeyDecryptError):
        vault.rotate(damaged, provider="openai")


def test_rotation_reads_the_old_secret_and_writes_the_new():
    old, new = Secret("old"), Secret("new")
    token = Vault(old).encrypt(KEY, **WHERE)
    both = Vault(new, [old])
    assert both.decrypt(token, **WHERE) == KEY
    rotated = both.rotate(token, provider="openai")
    assert Vault(new).decrypt(rotated, **WHERE) == KEY
    with pytest.raises(KeyDecryptError):
        Vault(new).rotate(token, provider="openai")


def test_a_changed_secret_is_noticed_by_its_check_value():
    before = Vault(Secret("old")).check_value
    assert Vault(Secret("old")).recognises(before)
    assert Vault(Secret("new"), [Secret("old")]).recognises(before)
    assert not Vault(Secret("new")).recognises(before)
    assert not Vault(Secret("old")).recognises("naïve")


def test_it_shows_no_secret():
    assert repr(Vault(Secret("canary"))) == "Vault(1 secrets)"


def test_the_variable_wins_over_the_file(tmp_path):
    (tmp_path / ".secret").write_text("from file\n")
    assert load_secrets(Secret("from env"), NONE, tmp_path) == (Secret("from env"),)
    assert load_secrets(NONE, NONE, tmp_path) == (Secret("from file"),)


def test_secrets_that_are_being_replaced_still_decrypt(tmp_path):
    token = Vault(Secret("old")).encrypt(KEY, **WHERE)
    assert load_secrets(Secret("new"), Secret("old"), tmp_path) == (Secret("new"), Secret("old"))
    result = new_secret()
    replace_secret_file(tmp_path, [result, Secret("old")])
    assert stat.S_IMODE((tmp_path / ".secret").stat().st_mode) == 0o600
    first, *others = load_secrets(NONE, NONE, tmp_path)
    assert first == result
    assert Vault(first, others).decrypt(token, **WHERE) == KEY
    replace_secret_file(tmp_path, [result])
    assert load_secrets(NONE, NONE, tmp_path) == (result,)


def test_a_secret_is_made_once_and_kept_private(tmp_path):
    folder = tmp_path / "config"
    [result] = load_secrets(NONE, NONE, folder)
    assert load_secrets(NONE, NONE, folder) == (result,)
    assert stat.S_IMODE((folder / ".secret").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in folder.iterdir()] == [".secret"]
    assert len(base64.urlsafe_b64decode(result.reveal())) == 32


def test_a_file_open_to_others_is_closed(tmp_path):
    path = tmp_path / ".secret"
    path.write_text("x")
    path.chmod(0o644)
    load_secrets(NONE, NONE, tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_empty_file_is_an_error_and_stays(tmp_path):
    (tmp_path / ".secret").write_text(" \n")
    with pytest.raises(ConfigError, match="the secret is empty"):
        load_secrets(NONE, NONE, tmp_path)
    assert (tmp_path / ".secret").read_text() == " \n"


@pytest.mark.parametrize("content", [b"\xff\xfe", None])
def test_an_unusable_file_is_an_error(tmp_path, content):
    path = tmp_path / ".secret"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(ConfigError, match="the secret cannot be used"):
        load_secrets(NONE, NONE, tmp_path)
