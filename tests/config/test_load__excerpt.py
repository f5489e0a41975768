import pytest

from gw.config.load import secret_value, shown_line


@pytest.mark.parametrize(
    ("path", "text", "hidden"),
    [
        (("providers", "openai", "api_key"), "plain", True),
        (("providers", "openai", "api_key"), "${OPENAI_API_KEY}", False),
        (("providers", "openai", "api_kye"), "plain", True),
        (("providers", "openai"), "plain", True),
        (("providers", "openai", "type"), "groq", False),
        (("providers", "openai", "base_url"), "http://h/v1", False),
        (("providers", "openai", "base_url"), "http://user:pass@h/v1", True),
        (("projects", "a", "providers", "openai"), "plain", True),
        (("projects", "a", "name"), "plain", False),
        (("auth", "keys", 0, "key"), "plain", True),
        (("auth", "keys", 0, "project"), "a", False),
        (("auth", "admin_token", 0), "plain", True),
        (("serve", "host"), "0.0.0.0", False),
    ],
)
def test_secrets_are_hidden(path, text, hidden):
    assert secret_value(path, text) is hidden


def test_spans_and_key_forms_are_replaced():
    assert shown_line("a: {key: abc, x: 1}", [(9, 12), (9, 12)], 1) == "a: {key: …, x: 1}"
    assert shown_line("nmae: sk-proj-abcdef123456", [], 1) == "nmae: …"
    assert shown_line("model: gpt-4o-mini-transcribe", [], 1) == "model: gpt-4o-mini-transcribe"
    assert shown_line("x" * 500, [], 300) == ""
