"""Frameworks for agents, in Python, JavaScript and Java, on the demo's engine; what worked is the table of docs/clients.md.

    GW_WRITE_PROGRAMS=1 uv run nox -s clients_programs

Without that variable the page must say what this run has seen.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.clients.conftest import Gateway
from tests.clients.programs.frameworks import PROGRAMS, Address

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "clients.md"
BEGIN, END = "<!-- programs -->", "<!-- end of the programs -->"
NODE = Path(__file__).with_name("programs")
WITHIN_S = 120
_RESPONSES, _CHAT, _AUDIO = "OpenAI responses", "OpenAI chat", "OpenAI chat and audio"
ON_NPM: Mapping[str, tuple[str, str, str]] = {
    "vercel_responses": ("Vercel AI SDK", _RESPONSES, "@ai-sdk/openai"),
    "vercel_chat": ("Vercel AI SDK", _AUDIO, "@ai-sdk/openai"),
    "vercel_anthropic": ("Vercel AI SDK", "Anthropic", "@ai-sdk/anthropic"),
    "vercel_groq": ("Vercel AI SDK", "Groq", "@ai-sdk/groq"),
    "vercel_compatible": ("Vercel AI SDK", _CHAT, "@ai-sdk/openai-compatible"),
    "vercel_elevenlabs": ("Vercel AI SDK", "ElevenLabs", "@ai-sdk/elevenlabs"),
    "vercel_deepgram": ("Vercel AI SDK", "Deepgram", "@ai-sdk/deepgram"),
    "vercel_assemblyai": ("Vercel AI SDK", "AssemblyAI", "@ai-sdk/assemblyai"),
    "agents_responses": ("OpenAI Agents SDK", _RESPONSES, "@openai/agents"),
    "agents_chat": ("OpenAI Agents SDK", _CHAT, "@openai/agents"),
    "langchain_responses": ("LangChain.js", _RESPONSES, "@langchain/openai"),
    "langchain_chat": ("LangChain.js", _CHAT, "@langchain/openai"),
    "langchain_anthropic": ("LangChain.js", "Anthropic", "@langchain/anthropic"),
    "groq": ("Groq SDK", "Groq", "groq-sdk"),
    "ollama": ("Ollama SDK", "Ollama", "ollama"),
}
"""Program → its name, the protocol it speaks, and the package whose version the table names."""
JVM = NODE / "java"
ON_MAVEN: Mapping[str, tuple[str, str, str]] = {
    "openai_sdk": ("OpenAI SDK", "OpenAI chat, responses and audio", "com.openai:openai-java"),
    "anthropic_sdk": ("Anthropic SDK", "Anthropic", "com.anthropic:anthropic-java"),
    "langchain4j_openai": ("LangChain4j", _CHAT, "dev.langchain4j:langchain4j-open-ai"),
    "langchain4j_anthropic": ("LangChain4j", "Anthropic", "dev.langchain4j:langchain4j-anthropic"),
    "spring_ai": ("Spring AI", _AUDIO, "org.springframework.ai:spring-ai-openai"),
}
"""The same for programs on the JVM."""


def _row(name: str, package: str, version: str, protocol: str, abilities: list[str]) -> str:
    return f"| {name} | `{package}` {version} | {protocol} | {', '.join(abilities)} |"


@pytest.fixture(scope="module")
def rows() -> Iterator[list[str]]:
    """Lines of the table, one for each program that ran; compared with the page, or written to it, at the end."""
    seen: list[str] = []
    yield seen
    if len(seen) < len(PROGRAMS) + len(ON_NPM) + len(ON_MAVEN):
        return  # a part of the programs, or a failed one, which its own test reports
    head, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    table = "\n".join(["", "| program | package | protocol | what works |", "|---|---|---|---|", *seen, ""])
    before, _, tail = rest.partition(END)
    if os.environ.get("GW_WRITE_PROGRAMS"):
        PAGE.write_text(f"{head}{BEGIN}{table}{END}{tail}", "utf-8")
    else:
        assert before == table, f"{PAGE} is old: run GW_WRITE_PROGRAMS=1 uv run nox -s clients_programs"


@pytest.mark.parametrize("name", PROGRAMS)
def test_python(demo: Gateway, rows: list[str], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GROQ_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it would fetch a list of prices
    program = PROGRAMS[name]
    abilities = list(program.run(Address(demo.daemon.url, tmp_path)))
    assert abilities
    version = importlib.metadata.version(program.package)
    rows.append(_row(program.name, program.package, version, program.protocol, abilities))


@pytest.mark.parametrize("name", ON_NPM)
def test_npm(demo: Gateway, rows: list[str], tool, name: str) -> None:
    title, protocol, package = ON_NPM[name]
    manifest = NODE / "node_modules" / package / "package.json"
    if not manifest.is_file():
        pytest.fail(f"the npm packages are not installed; run: npm ci --prefix {NODE}")
    command = [tool("node"), str(NODE / "frameworks.mjs"), name, demo.daemon.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 0, done.stderr
    abilities = json.loads(done.stdout.splitlines()[-1])
    assert abilities
    rows.append(_row(title, package, json.loads(manifest.read_text("utf-8"))["version"], protocol, abilities))


@pytest.fixture(scope="module")
def class_path(tool, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The compiled programs and the libraries."""
    jars = os.environ.get("GW_JARS")
    assert jars, "GW_JARS names no folder with the libraries: run uv run nox -s clients_programs"
    classes = tmp_path_factory.mktemp("classes")
    libraries = f"{jars}/*"
    compiler = [tool("javac"), "-nowarn", "-cp", libraries, "-d", str(classes), str(JVM / "Frameworks.java")]
    subprocess.run(compiler, capture_output=True, text=True, timeout=WITHIN_S, check=True)
    return f"{classes}{os.pathsep}{libraries}"


def _version_in_pom(package: str) -> str:
    group, _, artifact = package.partition(":")
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    for dependency in ElementTree.parse(JVM / "pom.xml").findall("m:dependencies/m:dependency", space):
        if (dependency.findtext("m:groupId", None, space), dependency.findtext("m:artifactId", None, space)) == (group, artifact):
            return str(dependency.findtext("m:version", None, space))
    raise LookupError(f"pom.xml has no {package}")


@pytest.mark.parametrize("name", ON_MAVEN)
def test_jvm(demo: Gateway, rows: list[str], tool, class_path: str, name: str) -> None:
    title, protocol, package = ON_MAVEN[name]
    command = [tool("java"), "-cp", class_path, "Frameworks", name, demo.daemon.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 0, done.stderr
    abilities = done.stdout.split()
    assert abilities
    rows.append(_row(title, package.partition(":")[2], _version_in_pom(package), protocol, abilities))
