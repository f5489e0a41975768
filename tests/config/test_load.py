import pytest

from gw.config.load import MAX_CHARACTERS, FromEnv, load
from gw.errors import ConfigError


def read(text, env=None):
    return load(text, file="gw.yaml", env={} if env is None else env)


def refused(text):
    with pytest.raises(ConfigError) as raised:
        read(text)
    (problem,) = raised.value.problems
    return problem


def test_values_keep_their_positions():
    document = read("a:\n  b: [1, two]\n  c: {d: true}\n")
    assert document.data == {"a": {"b": [1, "two"], "c": {"d": True}}}
    assert document.position(("a", "b", 1)) == (2, 10)
    assert document.position(("a", "c", "d"), key=True) == (3, 7)
    assert document.position(("a", "x", "y")) == (2, 3), "the nearest parent"


@pytest.mark.parametrize(
    ("text", "line", "column", "what", "hint"),
    [
        ("a: b: c", 1, 5, "mapping values are not allowed", "quote"),
        ("\tx: 1", 1, 1, "cannot start any token", "not tabs"),
        ("a: 'open", 1, 9, "unexpected end of stream", "not closed"),
        ("a: 1\n b: 2", 2, 3, "mapping values", "quote"),
        ("a: [1,\nb", 2, 2, "did not find expected", ""),
        ("a: ok\nb: \x01", 2, 4, "'\\x01' is not allowed", ""),
        ("--- 1\n--- 2", 2, 1, "another document", "one document"),
        ("a: *secretname", 1, 4, "undefined alias", ""),
    ],
)
def test_syntax_errors_have_a_place(text, line, column, what, hint):
    problem = refused(text)
    assert (problem.line, problem.column) == (line, column)
    assert what in problem.what
    assert hint in problem.hint
    assert "secretname" not in str(problem)


def test_caps():
    assert "larger than" in refused("#" * (MAX_CHARACTERS + 1)).what
    assert "nested deeper" in refused("[" * 5_000).what
    assert "nested deeper" in refused("a: &a [*a]").what
    bomb = "x0: &x0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    bomb += "".join(f"x{i}: &x{i} [{', '.join([f'*x{i - 1}'] * 10)}]\n" for i in range(1, 9))
    assert "aliases included" in refused(bomb).what


def test_duplicate_keys():
    document = read("a:\n  x: 1\n  y: 2\n  x: 3\n")
    (problem,) = document.problems
    assert str(problem).startswith("gw.yaml:4:3: duplicate key 'a.x'; first on line 2")


def test_variables():
    env = {"HOST": "box", "EMPTY": "", "TRICK": "${HOST}"}
    document = read("a: http://${HOST}:1/${HOST}\nb: '${EMPTY}'\nc: $${HOST}\nd: ${TRICK}\ne: 'no $HOST'\n", env)
    assert document.data == {"a": "http://box:1/box", "b": "", "c": "${HOST}", "d": "${HOST}", "e": "no $HOST"}
    assert isinstance(document.data["a"], FromEnv)
    assert not isinstance(document.data["c"], FromEnv)
    assert not document.problems


def test_an_unset_variable_is_named_with_its_place():
    document = read("p:\n  api_key: prefix-${NOT_SET}\n  b: ${BAD-NAME}\n  c: ${open\n", {"SET": "x"})
    first, second, third = document.problems
    assert (first.line, first.column, first.where) == (2, 19, "p.api_key")
    assert "NOT_SET is not set" in first.what
    assert (second.line, third.line) == (3, 4)
    assert "not a variable reference" in second.what


def test_without_an_environment_references_stay():
    assert load("a: ${X}", file="f", env=None).data == {"a": "${X}"}


def test_merge_keys():
    document = read("base: &b {x: 1, y: 2}\na:\n  <<: *b\n  x: 3\nc: {<<: [*b, {z: 4}]}\nd: {<<: 5}\n")
    assert document.data["a"] == {"x": 3, "y": 2}
    assert document.data["c"] == {"x": 1, "y": 2, "z": 4}
    assert "'<<' takes a mapping" in document.problems[0].what


@pytest.mark.parametrize("text", ["a: !!python/object:os.system x", "a: !own x", "a: !!int ten", "a: 2024-13-45"])
def test_values_that_cannot_stand_here(text):
    (problem,) = read(text).problems
    assert "not a valid value" in problem.what
    assert (problem.line, problem.column) == (1, 4)


def test_keys_are_plain_texts():
    (problem,) = read("? [a]\n: 1\n5: x\n").problems
    assert "key must be plain text" in problem.what
    assert list(load("5: x\na: {b: 1}", file="f", env=None).key_positions) == [("5",), ("a",), ("a", "b")]


def test_an_empty_file_is_nothing():
    assert read("# only a comment\n").data is None


def test_line_numbers_of_keys_items_and_texts_in_lists():
    document = load("a:\n  b: 1\nlist:\n- x\n- {y: 2}\n- ${NAME}\n", file="f", env={"NAME": "hidden"})
    lines = document.line_numbers()
    assert (lines["a",], lines["a", "b"], lines["list", 0], lines["list", "x"], lines["list", 1, "y"]) == (1, 2, 4, 4, 5)
    assert "hidden" not in str(lines)
