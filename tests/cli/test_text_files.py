from __future__ import annotations

import pytest

from gw.cli.main import CommandFailed
from gw.cli.text_files import decode_text, read_text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_what_editors_and_spreadsheets_save(tmp_path, encoding):
    file = tmp_path / "file.txt"
    file.write_bytes("Müller\r\n".encode(encoding))
    assert read_text(file) == "Müller\r\n"


@pytest.mark.parametrize("data", ["a\nMüller".encode("cp1252"), b"\xff\xfea"])
def test_another_encoding_is_refused_with_the_line(data):
    with pytest.raises(CommandFailed) as raised:
        decode_text(data, "file.txt")
    assert raised.value.message == f"file.txt line {1 + data.count(10)}: the text is not UTF-8; save the file in UTF-8"


@pytest.mark.parametrize(
    "arguments",
    [
        ("pronunciations", "import", "FILE", "--project", "shop"),
        ("cache", "warm", "FILE", "--model", "sim/tone", "--voice", "tone"),
        ("providers", "add", "p", "--type", "openai", "--api-key-file", "FILE"),
        ("prices", "update", "FILE"),
    ],
)  # fmt: skip
def test_every_command_that_reads_a_file_says_so(run, real_gateway, tmp_path, arguments):
    file = tmp_path / "openai.toml"
    file.write_bytes("first\nMüller".encode("cp1252"))
    refused = run(*(str(file) if word == "FILE" else word for word in arguments))
    assert (refused.exit_code, "line 2: the text is not UTF-8" in refused.stderr) == (1, True), refused.output
