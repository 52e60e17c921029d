"""Line numbers: right where they are given, and not given where they could be wrong."""

import pytest

from entrypoint.settings.locate import locate


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("a = 1", ("a",), 1),
        ("# a = 1\n\na = 1", ("a",), 3),
        ("[t]\na=1", ("t", "a"), 2),
        ("[ t . u ] # why\n  a = 1", ("t", "u", "a"), 2),
        ("[t]\nu.a = 1", ("t", "u", "a"), 2),
        ("[t]\n'u' . \"a b\" = 1", ("t", "u", "a b"), 2),
        ("[t]\na = { b = 1 }", ("t", "a", "b"), 2),
        ("\n[t]", ("t",), 2),
        ("\n[t.u]", ("t",), 2),
        ("\n[[t]]", ("t",), 2),
        ("a = '''\nb = 1\n'''\nb = 2", ("b",), 4),
        ("a = '''\n\"\"\"\n'''\nb = 2", ("b",), 4),
        ("[t]\nu.a = 1", ("t", "u"), 2),
        ('a = """x"""\nb = 2', ("b",), 2),
        ("a = [\n  'b = 1',\n]\nb = 2", ("b",), 4),
        ("# it's '''\na = 1", ("a",), 2),
        ("a = 1\r\nb = 2\r\n", ("b",), 2),
    ],
)
def test_a_key_is_found_on_its_line(text: str, path: tuple[str, ...], line: int):
    assert locate(text).of(path) == line


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a = 1", ("b",)),
        ("a = '''\nb = 1\n'''", ("b",)),
        ("[t]\na = {\n  b = 1,\n}\n[u]\na = 1", ("u", "b")),
        ("a = {\n  b = 1,\n}\nb = 2", ("b",)),
        ('"\\u0061" = 1', ("a",)),
        ("[t]\n", ("t", "a")),
        ("= 1", ("",)),
    ],
)
def test_a_key_that_cannot_be_placed_for_certain_has_no_line(text: str, path: tuple[str, ...]):
    assert locate(text).of(path) is None
