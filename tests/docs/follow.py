"""Follow a page of the documentation: every block is typed, run, loaded or parsed, as its language says."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from markdown_pages import Block

from gw.config.parse import SECTIONS, parse
from gw.registry.merge import build
from gw.types.provider_types import PROVIDER_TYPES
from tests.fakes.terminal import Failed, Terminal

PLACES = {
    "GW_VALKEY_URL": "valkey://127.0.0.1:6379/0", "GW_DATABASE_URL": "postgresql://gw@127.0.0.1/gw",
    "GW_ALERT_SECRET": "whsec_jEHw0dKq5n8bY2mVt7LrXsP4cZ9uQ1oA6fGiTeWyRk0=", "SLACK_WEBHOOK_URL": "https://hooks.example.com/T0/B0",
}  # fmt: skip
ADDRESS = re.compile(r"\$\{(\w+)\}.*# (?:such as )?(\w+://[^\s;,]+)")
"""A variable whose value the comment on its line shows."""
SECRET = "8c41f0d2ab7795e36fe208b14d6c93a7"
NUMBER = re.compile(r"\$?\d[\d.,]*")
BLANKS = re.compile(r"\s+")


@dataclass
class Followed:
    """What became of the blocks of a page."""

    run: list[Block] = field(default_factory=list)
    left_out: list[Block] = field(default_factory=list)


def follow(blocks: list[Block], shell: Terminal, wants: frozenset[str]) -> Followed:
    """Go through the blocks of a page in order; those of languages that are not in `wants` are left to another test."""
    followed, output = Followed(), ""
    typed = [block.text for block in blocks if block.language == "bash" and not block.marker.startswith(("not run", "run by"))]
    own = any(re.search(r"^gw serve", text, re.MULTILINE) for text in typed)
    for block in blocks:
        kind, _, fact = block.marker.partition(": ")
        if kind == "not run" or kind.startswith("run by "):
            followed.left_out.append(block)
            continue
        if block.language not in wants:
            continue
        if not own and not shell.address and block.language in ("bash", "js", "python"):
            shell.serve()
        try:
            output = _follow(block, kind, fact, shell, output)
        except (Failed, AssertionError, ValueError, OSError) as error:
            raise AssertionError(f"{block.page}:{block.line}: {error}") from error
        followed.run.append(block)
    return followed


def _follow(block: Block, kind: str, fact: str, shell: Terminal, output: str) -> str:
    if block.language == "text":
        if kind == "output":
            compare_output(block.text, output)
        return output
    if block.language in ("yaml", "json", "toml"):
        load(block)
    if kind == "file":
        shell.write_file(fact, block.text)
        return output
    if block.language == "bash":
        return shell.type_in(block.text)
    if block.language == "python":
        given = f"{fact}\n" if kind == "given" else ""
        shell.write_file("block.py", given + block.text)
        return shell.type_in("python block.py")
    if block.language == "js":
        given = f"{fact}\n" if kind == "given" else ""
        shell.write_file("block.mjs", given + block.text)
        return shell.type_in("node block.mjs")
    return output


def compare_output(shown: str, output: str) -> None:
    """Each line that the page shows must be in the output, in order, numbers apart; `…` stands for any text."""
    lines = iter(masked(line) for line in output.splitlines())
    for line in shown.splitlines():
        wanted = ".*".join(re.escape(masked(part)) for part in line.split("…"))
        if wanted and not any(re.fullmatch(wanted, line) for line in lines):
            raise AssertionError(f"the page shows {line!r}, which is not in the output:\n{output}")


def masked(text: str) -> str:
    """Return a line with its numbers and blanks made the same."""
    return BLANKS.sub(" ", NUMBER.sub("N", text)).strip()


def load(block: Block) -> None:
    """Parse a block of data; a part of gw.yaml must be one that the gateway takes."""
    if block.language == "json":
        json.loads(block.text)
    elif block.language == "toml":
        tomllib.loads(block.text)
    else:
        value = yaml.safe_load(block.text)
        if isinstance(value, dict) and set(value) <= set(SECTIONS) and block.marker != "values":
            check_configuration(block.text, value)


def _modalities(kind: str) -> tuple[str, ...]:
    return ("stt", "llm", "tts") if kind == "sim" else PROVIDER_TYPES[kind].modalities


def check_configuration(text: str, value: dict[str, object]) -> None:
    """Parse gw.yaml, completed by what the part on the page leaves out: providers with a key, and models of the built-in engine."""
    given = value.get("providers")
    types = {name: (entry or {}).get("type", name) for name, entry in given.items()} if isinstance(given, dict) else {}
    rest: dict[str, object] = {}
    if not types:
        types = {name: name for name in {*re.findall(r"\b([a-z]+)/[\w.*-]", text), "sim"} & set(PROVIDER_TYPES)}
        rest["providers"] = {name: {} if name == "sim" else {"api_key": "k" * 40} for name in sorted(types)}
    if "models" not in value:
        rest["models"] = {
            modality: [model if kind == "sim" else f"{name}/*" for name, kind in sorted(types.items()) if modality in _modalities(kind)]
            for modality, model in {"stt": "sim/tone", "llm": "sim/echo", "tts": "sim/tone"}.items()
        }  # fmt: skip
    whole = text + ("\n" + yaml.safe_dump(rest) if rest else "")
    env = {name: PLACES.get(name, f"{SECRET}-{name}") for name in re.findall(r"\$\{(\w+)\}", whole)} | {"GW_SECRET": SECRET}
    env |= {name: address for name, address in ADDRESS.findall(whole) if name not in PLACES}
    settings = parse(whole, file="gw.yaml", env=env, data_dir=Path("."))
    if not rest:  # a part may well lack what another part of the page has
        assert [warning for warning in settings.warnings if "ended this service" not in warning] == []
    build(settings)
