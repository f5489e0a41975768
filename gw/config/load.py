"""YAML text to plain values with their positions, and `${VAR}` replaced from the environment.

The document is composed into nodes, which carry line and column, and walked here: PyYAML's constructor would lose the
positions and accept duplicate keys in silence. Three limits protect the process from a hostile or broken file: its size,
its nesting (checked on the event stream, before any recursion) and the number of values after aliases are followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import attrs
import yaml

from gw.errors import ConfigError, Problem
from gw.types.provider_types import PROVIDER_TYPES

_SECRET_NAMES = frozenset(
    {"api_key", "valkey", "database", "admin_token", "key", "token", "secret", "password", "credential", "credentials"}
)
_LIMITS = ("daily_budget", "weekly_budget", "monthly_budget", "total_budget", "requests_per_minute", "max_concurrent", "regions")
_HARMLESS = frozenset({"type", "base_url", "enabled", "project", "name", "allow_open", *_LIMITS}).union(
    *(kind.options for kind in PROVIDER_TYPES.values())
)
_KEY_FORM = re.compile(r"\b(?:sk|gsk|gwk|pk|xai|key|tok|eyJ)[-_][A-Za-z0-9_\-]{6,}|\b(?=[a-z]*[0-9])[0-9a-f]{28,}\b")
_REFERENCE = re.compile(r"(?:\$\{[A-Za-z_][A-Za-z0-9_]*\})+")
_PASSWORD = re.compile(r"//[^/\s]*@")
_WIDTH = 160
_SHORTEST_HIDDEN, _LONGEST_SHOWN = 6, 60


def secret_value(path: Sequence[str | int], text: str) -> bool:
    """Return whether the scalar `text` at `path` must be hidden.

    It is hidden when its path says so (keys, tokens, addresses of receivers, everything of `auth` and `providers` that is not
    known to be harmless), or when it is an address with a password. A reference such as `${OPENAI_API_KEY}` is a name, not a value.
    """
    if not text or _REFERENCE.fullmatch(text):
        return False
    if _SECRET_NAMES.intersection(part for part in path if isinstance(part, str)) or _PASSWORD.search(text):
        return True
    if path[:1] == ("alerts",):
        return path[-1] == "url"
    if path[:2] == ("auth", "oidc"):
        return path[2:3] == ("client_secret",)
    if path[:1] == ("projects",):
        return path[2:3] == ("providers",)
    return bool(path) and path[0] in {"providers", "auth"} and path[-1] not in _HARMLESS


def shown_line(line: str, hidden: Sequence[tuple[int, int]], column: int) -> str:
    """Return `line` without the hidden spans and what looks like a key; "" when the column is beyond the width that is shown."""
    for start, end in sorted(set(hidden), reverse=True):
        line = line[:start] + "…" + line[end:] if start < len(line) else line
    line = _KEY_FORM.sub("…", line.replace("\t", " ").rstrip())
    return "" if column > _WIDTH else line[:_WIDTH]


MAX_CHARACTERS = 1_000_000
MAX_DEPTH = 24
MAX_VALUES = 50_000

Path = tuple[str | int, ...]
_VARIABLE = re.compile(r"\$\$\{|\$\{([^}]*)\}?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STANDARD = "tag:yaml.org,2002:"
_MERGE = _STANDARD + "merge"
_NAMED = re.compile(r"(alias|anchor|tag handle) .*")  # what follows may be a secret written without quotes
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_HINTS = (
    ("cannot start any token", "indent with spaces, not tabs, and quote text that begins with @ ` or %"),
    ("mapping values are not allowed", "quote text that contains ': '"),
    ("could not find expected ':'", "a key must be followed by ': '"),
    ("expected <block end>", "check the indentation"),
    ("did not find expected key", "check the indentation"),
    ("unexpected end of stream", "a quote or bracket is not closed"),
    ("expected a single document", "keep everything in one document: remove the '---'"),
)


class FromEnv(str):
    """Text that came, at least in part, from the environment: it may stand for a number, and is never shown."""

    __slots__ = ()


def without_values(text: str, variables: Mapping[str, str]) -> str:
    """Return `text` with the values of environment variables replaced by references to them; values under 6 characters stay."""
    for name, value in sorted(variables.items(), key=lambda item: -len(item[1])):
        if len(value) >= _SHORTEST_HIDDEN:
            shown = re.escape(value[:_LONGEST_SHOWN]) + "[^'\\s]*" * (len(value) > _LONGEST_SHOWN)  # messages cut what is longer
            text = re.sub(shown, f"${{{name}}}", text, flags=re.IGNORECASE)
    return text


@attrs.define
class Document:
    """A loaded file: `data` (mappings, lists and scalars), the positions of its values, and the problems so far."""

    file: str
    lines: list[str]
    data: object = None
    value_positions: dict[Path, tuple[int, int]] = attrs.field(factory=dict)
    """Line and column of each value, from 1."""
    key_positions: dict[Path, tuple[int, int]] = attrs.field(factory=dict)
    problems: list[Problem] = attrs.field(factory=list)
    variables: dict[str, str] = attrs.field(factory=dict, repr=False)
    """Name → value of the environment variables that were inserted."""
    hidden: dict[int, list[tuple[int, int]]] = attrs.field(factory=dict)
    """Line → spans of columns (from 0) that contain a secret."""

    def position(self, path: Path, *, key: bool = False) -> tuple[int, int]:
        """Return line and column of a value or its key; a missing value has the position of its nearest parent."""
        while path:
            position = (self.key_positions if key else self.value_positions).get(path) or self.value_positions.get(path)
            if position is not None:
                return position
            path = path[:-1]
        return self.value_positions.get((), (1, 1))

    def line_numbers(self) -> dict[Path, int]:
        """Return the line of each key and list item. A text in a list can be looked up by that text as well."""
        lines = {path: line for path, (line, _) in (self.value_positions | self.key_positions).items()}
        return lines | {(*path[:-1], text): lines[path] for path, text in _list_texts(self.data, ())}

    def problem(self, path: Path, what: str, hint: str = "", *, key: bool = False) -> None:
        line, column = self.position(path, key=key)
        self.add(line, column, what, hint, where=dotted(path))

    def add(self, line: int, column: int, what: str, hint: str = "", where: str = "") -> None:
        known = 0 < line <= len(self.lines)
        excerpt = shown_line(self.lines[line - 1], self.hidden.get(line, []), column) if known else ""
        what, hint, where = (without_values(each, self.variables) for each in (what, hint, where))
        problem = Problem(file=self.file, line=line, column=column, what=what, hint=hint, where=where, excerpt=excerpt)
        self.problems.append(problem)


def _list_texts(value: object, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _list_texts(child, (*path, name))
    elif isinstance(value, list):
        for number, child in enumerate(value):
            if isinstance(child, str) and not isinstance(child, FromEnv):
                yield (*path, number), child
            else:
                yield from _list_texts(child, (*path, number))


def dotted(path: Path) -> str:
    return ".".join(str(part) for part in path)


def load(text: str, *, file: str, env: Mapping[str, str] | None) -> Document:
    """Return the document of `text`; `env` None leaves `${VAR}` unchanged.

    Its `problems` may already have entries (duplicate keys, unset variables). Raises ConfigError for syntax errors and
    exceeded limits.
    """
    document = Document(file=file, lines=text.splitlines())
    if len(text) > MAX_CHARACTERS:
        what = f"the file is larger than {MAX_CHARACTERS} characters"
        raise ConfigError(problems=(Problem(file=file, line=1, column=1, what=what),))
    try:
        _check_depth(text, document)
        root = yaml.compose(text, _Loader)
    except yaml.YAMLError as error:
        _syntax_error(document, error, text)
        raise ConfigError(problems=tuple(document.problems)) from None
    if root is not None:
        _Walk(document, env).root(root)
    return document


def _check_depth(text: str, document: Document) -> None:
    depth = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                _refuse(document, event, f"nested deeper than {MAX_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _refuse(document: Document, node: yaml.Event | yaml.Node, what: str) -> NoReturn:
    document.add(*_position(node), what)
    raise ConfigError(problems=tuple(document.problems))


def _syntax_error(document: Document, error: yaml.YAMLError, text: str) -> None:
    line = column = 1
    what = "not readable as YAML"
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        if mark is not None and mark.line < len(document.lines):
            line, column = mark.line + 1, mark.column + 1
        elif document.lines:
            line, column = len(document.lines), len(document.lines[-1]) + 1
        what = error.problem or what
        what = f"{error.context}, {what}" if what.startswith("but") else what
        what = _NAMED.sub(r"\1", what.replace("\n", " "))
        if "nesting depth" in what:  # PyYAML from 6.0.4 on has a limit of its own, which it may reach first, as it reads ahead
            what = f"nested deeper than {MAX_DEPTH} levels"
    elif (bad := yaml.reader.Reader.NON_PRINTABLE.search(text)) is not None:
        line, column = text.count("\n", 0, bad.start()) + 1, bad.start() - text.rfind("\n", 0, bad.start())
        what = f"the character {bad[0]!r} is not allowed in YAML"
    hint = next((hint for part, hint in _HINTS if part in what), "")
    if 0 < line <= len(document.lines):
        # The structure of this line is unknown, so everything after a colon is hidden.
        colon = document.lines[line - 1].find(":")
        if colon >= 0:
            document.hidden[line] = [(colon + 1, len(document.lines[line - 1]))]
    document.add(line, column, f"syntax error: {what}", hint)


class _Walk:
    """One pass over the nodes: returns plain values, and adds positions and problems to the document."""

    def __init__(self, document: Document, env: Mapping[str, str] | None) -> None:
        self._document = document
        self._env = env
        self._remaining = MAX_VALUES
        self._scalars: Any = yaml.constructor.SafeConstructor()

    def root(self, node: yaml.Node) -> None:
        self._hide(node, ())
        self._document.data = self._value(node, ())

    def _hide(self, node: yaml.Node, path: Path, depth: int = 0) -> None:
        """Record the positions of secrets, before any problem is reported."""
        self._count(node, depth)
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                self._hide(value, (*path, str(key.value)), depth + 1)
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                self._hide(value, (*path, index), depth + 1)
        elif secret_value(path, node.value):
            for line in range(node.start_mark.line, node.end_mark.line + 1):
                start = node.start_mark.column if line == node.start_mark.line else 0
                end = node.end_mark.column if line == node.end_mark.line else 1_000_000
                self._document.hidden.setdefault(line + 1, []).append((start, end))

    def _count(self, node: yaml.Node, depth: int) -> None:
        self._remaining -= 1
        if self._remaining < 0:
            _refuse(self._document, node, f"more than {MAX_VALUES} values, aliases included")
        if depth > MAX_DEPTH:
            _refuse(self._document, node, f"nested deeper than {MAX_DEPTH} levels, aliases included")

    def _value(self, node: yaml.Node, path: Path) -> object:
        self._document.value_positions.setdefault(path, _position(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, (*path, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        _refuse(self._document, node, "not a mapping, a list or a value")

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, object]:
        result: dict[str, object] = {}
        merged: list[yaml.Node] = []
        for key, value in node.value:
            if key.tag == _MERGE:
                merged.extend(value.value if isinstance(value, yaml.SequenceNode) else [value])
                continue
            line, column = _position(key)
            if not isinstance(key, yaml.ScalarNode):
                self._document.add(line, column, "a key must be plain text")
                continue
            place = (*path, key.value)
            if key.value in result:
                first = self._document.key_positions[place][0]
                what = f"duplicate key {dotted(place)!r}"
                self._document.add(line, column, what, f"first on line {first}", dotted(place))
                continue
            self._document.key_positions.setdefault(place, (line, column))
            result[key.value] = self._value(value, place)
        for source in merged:
            if not isinstance(source, yaml.MappingNode):
                self._document.add(*_position(source), "'<<' takes a mapping, or a list of mappings")
                continue
            for name, value in self._mapping(source, path).items():
                result.setdefault(name, value)
        return result

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> object:
        try:
            value = self._scalars.construct_object(node)
        except (yaml.YAMLError, ValueError):
            kind = node.tag.removeprefix(_STANDARD) if node.tag.startswith(_STANDARD) else "an unknown tag"
            self._document.problem(path, f"not a valid value ({kind})", "quote it if it is text")
            return None
        if isinstance(value, str) and "${" in value and self._env is not None:
            return self._replaced(value, node, path)
        return value

    def _replaced(self, text: str, node: yaml.ScalarNode, path: Path) -> str:
        """Replace `${VAR}` from the environment, once (a value is not searched again); `$${` is a literal `${`."""
        result = _VARIABLE.sub(lambda match: self._variable(match, node, path), text)
        return FromEnv(result) if any(match[1] is not None for match in _VARIABLE.finditer(text)) else result

    def _variable(self, match: re.Match[str], node: yaml.ScalarNode, path: Path) -> str:
        name, env = match[1], self._env or {}
        if name is None:
            return "${"
        if not _NAME.fullmatch(name):
            what, hint = "not a variable reference", "write ${NAME}, or $${ for a literal ${"
        elif name not in env:
            what, hint = f"the environment variable {name} is not set", f"export {name}=… or remove {dotted(path)}"
        else:
            self._document.variables[name] = env[name]
            return env[name]
        self._document.add(*self._reference_position(match[0], node), what, hint, dotted(path))
        return ""

    def _reference_position(self, reference: str, node: yaml.ScalarNode) -> tuple[int, int]:
        lines = self._document.lines
        for number in range(node.start_mark.line, min(node.end_mark.line + 1, len(lines))):
            at = lines[number].find(reference, node.start_mark.column if number == node.start_mark.line else 0)
            if at >= 0:
                return number + 1, at + 1
        return _position(node)


def _position(node: yaml.Node | yaml.Event) -> tuple[int, int]:
    mark = node.start_mark
    return (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
