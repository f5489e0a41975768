"""Rules of the tree that no other tool checks."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

from gw.types.presets import FOLDER, PRESETS
from gw.types.provider_types import PROVIDER_TYPES

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(path.relative_to(ROOT / "gw") for path in (ROOT / "gw").rglob("*.py"))
TESTS = sorted(path.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py"))
MAX_LINES = 400
MAX_WIRE_LINES = 600
"""A protocol stays in one module of `gw.wire`, client and server, up to this length."""
ROLES = (
    re.compile(r"[a-z_]*body|path_of|form_fields|\w+(Client|Decoder)"),
    re.compile(r"parse(_[a-z]+)?|\w+(Server|Encoder)"),
)
"""Public functions and classes of a client (builds requests, decodes answers) and of a server (parses requests, encodes answers)."""

ACROSS = {"test_rules.py", "test_typing.py"}
"""Tests of the tree as a whole."""
ACROSS_FOLDERS = {"bench_programs", "deploy", "docs", "e2e", "fuzz", "contract", "clients", "browser", "fakes"}
"""Folders of tests that run through many modules."""
SEVERAL_FOR_ONE = re.compile(r"(?P<module>.+?)__\w+\Z")
"""`test_relay__cancel.py` is a further file about `relay.py`."""


MODULE_TWINS = {"anthropic", "assemblyai", "cartesia", "deepgram", "elevenlabs", "ollama", "openai", "stt", "tts"}
"""Base names that two modules may share: a vendor as provider and as dialect, a modality as types and as the demo engine."""
CLASS_TWINS: set[str] = set()
"""Names that two public classes may share."""
RIDDLE = re.compile(r"(What|Who|Whom|Whose|Of|As|How|Where|It|Its|Whatever|Whoever)\b")
"""Beginnings of docstrings that are no sentence."""
NO_VERB = re.compile(r"(Whether|The|A|An|One|No|Those|These|Each|Every|All|True|False|None|Seconds|Bytes)\b")
"""Beginnings of docstrings of functions that do not say what the function does."""


def _text(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def _trees() -> dict[str, ast.Module]:
    """Dotted module name → syntax tree."""
    return {
        ".".join(("gw", *path.with_suffix("").parts)).removesuffix(".__init__"): ast.parse(_text("gw" / path))
        for path in MODULES
    }


def _tested(path: Path) -> Path:
    stem = path.stem.removeprefix("test_")
    several = SEVERAL_FOR_ONE.match(stem)
    module = path.with_name((several["module"] if several else stem) + ".py")
    package = path.parent if path.parent.name == stem else path.with_name(stem)
    return module if module in MODULES else package / "__init__.py"


def test_test_files_mirror_modules():
    mirrors = [path for path in TESTS if path.parts[0] not in ACROSS_FOLDERS and path.name not in ACROSS]
    assert [f"tests/{path}" for path in mirrors if _tested(path) not in MODULES] == []


def _limit(module: str, tree: ast.Module) -> int:
    public = [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name[0] != "_"]
    both_roles = all(any(role.fullmatch(name) for name in public) for role in ROLES)
    return MAX_WIRE_LINES if module.startswith("gw.wire.") and both_roles else MAX_LINES


def test_no_module_is_too_long():
    lengths = {str(path): _text("gw" / path).count("\n") for path in MODULES}
    limits = {path: _limit(module, tree) for path, (module, tree) in zip(lengths, _trees().items(), strict=True)}
    assert {path: lines for path, lines in lengths.items() if lines > limits[path]} == {}


@pytest.mark.parametrize(
    ("names", "limit"),
    [
        ("upstream_body parse_request", 600), ("ChatDecoder ChatEncoder", 600), ("path_of parse_query", 600),
        ("upstream_body ChatDecoder", 400), ("parse_request ChatEncoder error_body_of", 400), ("_body _parse", 400),
    ],
)  # fmt: skip
def test_only_a_protocol_with_both_roles_may_be_longer(names, limit):
    tree = ast.parse("\n".join(f"def {name}(): ..." for name in names.split()))
    assert _limit("gw.wire.acme", tree) == limit
    assert _limit("gw.relay.acme", tree) == MAX_LINES


def test_nothing_is_left_to_be_written():
    unfinished = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
    assert [str(path) for path in MODULES if unfinished.search(_text("gw" / path))] == []


def test_every_module_says_what_it_is():
    modules = [path for path in MODULES if path.name not in ("__init__.py", "__main__.py")]
    assert [str(path) for path in modules if not _text("gw" / path).startswith('"""')] == []


def test_no_two_modules_share_a_name():
    modules = defaultdict(list)
    for path in MODULES:
        if path.stem != "__init__":
            modules[path.stem].append(str(path))
    twins = {name: paths for name, paths in modules.items() if len(paths) > 1 and name not in MODULE_TWINS}
    assert twins == {}
    assert len(MODULE_TWINS | CLASS_TWINS) <= 10


def test_no_two_public_classes_share_a_name():
    classes = defaultdict(list)
    for module, tree in _trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(module)
    assert {name: where for name, where in classes.items() if len(where) > 1 and name not in CLASS_TWINS} == {}


def _imports(tree: ast.Module) -> set[str]:
    """Modules of gw that a module imports when it is loaded or type-checked; imports inside functions do not count."""
    names: set[str] = set()
    pending: list[ast.stmt] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If | ast.Try):
            pending += [*node.body, *node.orelse]
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {module if module in _trees() else node.module for module in modules}
    return names & _trees().keys()


def test_no_modules_import_each_other_in_a_circle():
    graph = {name: _imports(tree) - {name} for name, tree in _trees().items()}
    graph["gw"] = set()  # its names are imported at their first use
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise AssertionError(" <- ".join(error.args[1])) from None


def test_the_contract_about_providers_has_every_type():
    contracts = tomllib.loads(_text(Path("pyproject.toml")))["tool"]["importlinter"]["contracts"]
    (modules,) = (contract["modules"] for contract in contracts if contract["type"] == "independence")
    assert sorted(modules) == sorted(f"gw.providers.{name}" for name in PROVIDER_TYPES if name not in PRESETS)


def test_a_preset_is_a_short_file_without_a_module():
    lengths = {path.name: path.read_text(encoding="utf-8").count("\n") for path in FOLDER.glob("*.toml")}
    assert {name: lines for name, lines in lengths.items() if lines > 30} == {}
    assert [name for name in PRESETS if (ROOT / "gw" / "providers" / f"{name}.py").exists()] == []


def test_every_type_has_an_extra():
    extras = tomllib.loads(_text(Path("pyproject.toml")))["project"]["optional-dependencies"]
    assert [name for name in PROVIDER_TYPES if name != "sim" and name not in extras] == []


def test_docstrings_are_sentences():
    riddles = []
    for module, tree in _trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                text = node.value.value
                if RIDDLE.match(text):
                    riddles.append(f"{module}:{node.lineno}: {text.splitlines()[0]}")
    assert riddles == []


def test_docstrings_of_functions_begin_with_a_verb():
    nouns = []
    for module, tree in _trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and NO_VERB.match(ast.get_docstring(node) or ""):
                nouns.append(f"{module}:{node.lineno}: {node.name}")
    assert nouns == []


def test_docstrings_follow_what_they_say_something_about():
    def is_text(statement: ast.stmt) -> bool:
        return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)

    strays = [
        f"{module}:{text.lineno}"
        for module, tree in _trees().items() for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for before, text in pairwise(node.body) if is_text(text) and not isinstance(before, ast.Assign | ast.AnnAssign)
    ]
    assert strays == []


def test_the_lock_names_no_host():
    lock = _text(Path("requirements.lock"))
    assert "://" not in lock
    assert not re.search(r"^\s*(-i|-f|--)(index|find|extra|trusted)?", lock.replace("--hash=", ""), re.MULTILINE)


def _names(requirements: list[object]) -> set[str]:
    texts = [text for text in requirements if isinstance(text, str)]
    return {re.split(r"[\[<>=!~; ]", text)[0].lower().replace("_", "-") for text in texts}


def test_the_lock_pins_and_hashes_what_the_project_asks_for():
    project = tomllib.loads(_text(Path("pyproject.toml")))
    groups = project["dependency-groups"]
    required = _names(project["project"]["dependencies"]) | _names(groups["test"]) | _names(groups["lint"]) | _names(groups["docs"])
    entries = re.split(r"\n(?=\S)", _text(Path("requirements.lock")).strip())
    assert all("==" in entry and "--hash=sha256:" in entry for entry in entries)
    assert required <= {re.split(r"[=\[ ;]", entry)[0].lower() for entry in entries}


def test_the_readme_begins_with_two_commands_that_exist():
    readme = _text(Path("README.md"))
    commands = re.findall(r"^pip install uv && uv run (\S+)(.*)$", readme, re.MULTILINE)
    assert [(name, rest.strip()) for name, rest in commands] == [("gw", "serve --demo"), ("nox", "")]
    project = tomllib.loads(_text(Path("pyproject.toml")))
    assert project["project"]["scripts"]["gw"] == "gw.cli.main:main"
    assert any(str(text).startswith("nox") for text in project["dependency-groups"]["dev"])
    assert (ROOT / "noxfile.py").is_file()


def test_nothing_installs_a_package_of_an_index_that_only_has_our_name():
    """Nobody holds the name `gw`, so whoever takes it would be installed."""
    named = re.compile(r"pip3? install (-\S+ )*['\"]?gw\b|uvx (--from )?['\"]?gw|\bgw\[[a-z]|--with ['\"]?gw\b|['\"]gw-voice\[")
    tops = ("gw", "docs", "deploy", "bench", "examples", "tests", "frontend/src", ".ci")
    texts = [path for top in tops for path in (ROOT / top).rglob("*") if path.is_file() and "node_modules" not in path.parts]
    texts += [*ROOT.glob("*.md"), ROOT / "gw.yaml.example", ROOT / "noxfile.py"]
    texts = [path for path in texts if path.suffix not in (".pyc", ".png", ".so") and path.name != "test_rules.py"]
    assert len(texts) > 500
    assert [str(path) for path in texts if named.search(path.read_text("utf-8", "replace"))] == []


def test_no_file_names_a_place_of_one_machine():
    texts = [path for kind in ("py", "md") for top in ("gw", "tests", "docs") for path in (ROOT / top).rglob(f"*.{kind}")]
    texts = [path for path in texts if "node_modules" not in path.parts]  # installed, not ours
    texts += [*ROOT.glob("*.md"), *ROOT.glob("*.toml"), ROOT / "noxfile.py", ROOT / ".ci" / "run"]
    place = re.compile(r"(?<![\w.])/(work|root|home|Users|opt/pypi)/")
    assert [path.name for path in texts if path.name != "test_rules.py" and place.search(path.read_text("utf-8"))] == []


def _compiled() -> list[str]:
    project = tomllib.loads(_text(Path("pyproject.toml")))
    modules: list[str] = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["modules"]
    return modules


def _caught(function: ast.AST) -> dict[str, set[str]]:
    """Name → what the `except` clauses of a function bind to it."""
    names = defaultdict(set)
    for node in ast.walk(function):
        if isinstance(node, ast.ExceptHandler) and node.name and node.type:
            names[node.name].add(ast.unparse(node.type).rpartition(".")[2])
    return names


def _not_for_mypyc(tree: ast.Module) -> list[str]:
    """Say what mypyc refuses, or compiles into something else without a word."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.TryStar():
                found.append(f"{node.lineno}: except*")
            case ast.ClassDef():
                if any(ast.unparse(base).endswith("Struct") for base in node.bases):
                    found.append(f"{node.lineno}: a struct loses its options")
                elif node.keywords:
                    found.append(f"{node.lineno}: keywords of a class are dropped, so `__init_subclass__` does not get them")
                found += [f"{inner.lineno}: a nested class" for inner in node.body if isinstance(inner, ast.ClassDef)]
                found += [
                    f"{line.lineno}: a field's default must be of its type" for line in node.body
                    if isinstance(line, ast.AnnAssign) and line.value and re.match(r"(attrs|msgspec)\.", ast.unparse(line.value))
                ]  # fmt: skip
            case ast.Slice() if any(_acts(bound) for bound in (node.lower, node.upper, node.step) if bound is not None):
                found.append(f"{node.lower and node.lower.lineno}: a slice's bound that is called twice where a memoryview is cut")
            case ast.AsyncFunctionDef() if any(isinstance(inner, ast.Yield) for inner in ast.walk(node)):
                found.append(f"{node.lineno}: an asynchronous generator")
            case ast.FunctionDef() if any(isinstance(inner, ast.With) for inner in ast.walk(node)) and any(
                isinstance(inner, ast.Yield) for inner in ast.walk(node)
            ):
                found.append(f"{node.lineno}: a generator that is dropped does not leave its `with`")
            case ast.AsyncFunctionDef() if any(_waits(inner.finalbody) for inner in ast.walk(node) if isinstance(inner, ast.Try)):
                found.append(f"{node.lineno}: a `finally` that awaits raises again what its caller has caught before")
    return found


def _waits(statements: list[ast.stmt]) -> bool:
    waits = (ast.Await, ast.AsyncWith, ast.AsyncFor)
    return any(isinstance(inner, waits) for statement in statements for inner in ast.walk(statement))


def _acts(bound: ast.expr) -> bool:
    """Return whether it matters that an expression is evaluated twice."""
    calls = [inner for inner in ast.walk(bound) if isinstance(inner, ast.Call | ast.Await | ast.NamedExpr)]
    pure = ("len", "min", "max", "int", "index")
    return any(not isinstance(inner, ast.Call) or ast.unparse(inner.func).rpartition(".")[2] not in pure for inner in calls)


def _class_values(cls: ast.ClassDef) -> set[str]:
    """Return the names to which a class gives a value itself, but for the ones declared as a ClassVar or Final."""
    plain = {target.id for node in cls.body if isinstance(node, ast.Assign) for target in node.targets if isinstance(target, ast.Name)}
    annotated = [node for node in cls.body if isinstance(node, ast.AnnAssign) and node.value is not None]
    return {name for name in plain if not name.startswith("__")} | {
        ast.unparse(node.target) for node in annotated if not re.match(r"(ClassVar|Final)\b", ast.unparse(node.annotation))
    }


def _overridden(trees: dict[str, ast.Module], compiled: Collection[str]) -> list[str]:
    """Find values of compiled classes that a subclass replaces: mypyc keeps them in each instance, where it does not look for them."""
    classes = [(module, node) for module, tree in trees.items() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    bases, kept = defaultdict(set), defaultdict(set)
    for module, node in classes:
        bases[node.name] |= {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
        if module in compiled:
            kept[node.name] |= _class_values(node)

    def ancestors(name: str) -> Iterator[str]:
        for base in bases[name] - {name}:
            yield base
            yield from ancestors(base)

    return [
        f"{module}: {node.name}.{name} overrides {base}.{name}: declare that as a ClassVar"
        for module, node in classes for base in ancestors(node.name) for name in sorted(_class_values(node) & kept[base])
    ]  # fmt: skip


def test_values_of_compiled_classes_are_replaced_by_no_subclass():
    compiled = {module.removesuffix(".py").replace("/", ".") for module in _compiled()}
    assert compiled <= set(_trees())
    assert _overridden(_trees(), compiled) == []


@pytest.mark.parametrize(("declared", "count"), [("word = 'a'", 1), ("word: str = 'a'", 1), ("word: ClassVar[str] = 'a'", 0)])
def test_the_rule_about_values_of_classes_finds(declared, count):
    base, heirs = f"class A(Generic[S]):\n    {declared}", "class B(a.A[int]): ...\nclass C(B):\n    word = 'b'"
    assert len(_overridden({"a": ast.parse(base), "b": ast.parse(heirs)}, ["a"])) == count


def test_compiled_modules_hold_only_what_mypyc_compiles():
    assert _compiled() == sorted(set(_compiled()))
    found = {module: _not_for_mypyc(ast.parse(_text(Path(module)))) for module in _compiled()}
    assert {module: reasons for module, reasons in found.items() if reasons} == {}


def test_compiled_functions_bind_each_name_to_one_kind_of_error():
    """mypyc gives a variable one type: an error of another class in a second `except` would raise TypeError."""
    ours = {node.name for tree in _trees().values() for node in tree.body if isinstance(node, ast.ClassDef)}
    found = [
        f"{module}:{function.lineno}: {name}: {sorted(kinds)}"
        for module in _compiled() for function in ast.walk(ast.parse(_text(Path(module))))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for name, kinds in _caught(function).items() if len(kinds) > 1 and kinds & ours
    ]  # fmt: skip
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "class A(msgspec.Struct, frozen=True): ...", "class A(Base, status=429): ...",
        "class A:\n    class B: ...", "async def f():\n    yield 1",
        "try: ...\nexcept* ValueError: ...", "class A:\n    x: int = attrs.field(factory=int)",
        "def f():\n    with open('a') as b:\n        yield b",
        "async def f():\n    try: ...\n    finally:\n        if a:\n            await a()", "memoryview(a)[send(a) + len(b) :]",
    ],
)  # fmt: skip
def test_the_rule_about_compiled_modules_finds(source):
    assert len(_not_for_mypyc(ast.parse(source))) == 1
