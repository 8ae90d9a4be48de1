"""Typed reads: what is wrong is reported by its path and reads as empty."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from tests.wire.strategies import json_values

from mentatd.wire.fields import PROBLEM_LIMIT, Fields

RAW = {
    "text": "a",
    "blank": "",
    "half": "\ud800",
    "number": 17,
    "negative": -1,
    "huge": 2**63,
    "float": 1.0,
    "nothing": None,
    "yes": True,
    "texts": ["b", 1, "", "\udfff", "c"],
    "numbers": [0, True, -1, "1", 5],
    "object": {"inner": "x"},
    "objects": [{"id": "a"}, 7, {}, {"id": 5}, {"id": "a", "n": 2}],
    "table": {"x": {"n": 1}, "y": 3, "": {}, "\ud800": {}},
}


@pytest.mark.parametrize(
    ("read", "value", "problem"),
    [
        (lambda f: f.text("text"), "a", None),
        (lambda f: f.text("absent"), "", None),
        (lambda f: f.text("nothing"), "", None),
        (lambda f: f.text("half"), "", "half: expected text, found text with a lone surrogate"),
        (lambda f: f.text("number"), "", "number: expected text, found 17"),
        (lambda f: f.required_text("text"), "a", None),
        (lambda f: f.required_text("blank"), "", "blank: expected text, found nothing"),
        (lambda f: f.required_text("absent"), "", "absent: expected text, found nothing"),
        (lambda f: f.required_text("yes"), "", "yes: expected text, found true"),
        (lambda f: f.integer("number"), 17, None),
        (lambda f: f.integer("absent"), 0, None),
        (lambda f: f.integer("number", high=16), 0, "number: expected a whole number from 0 to 16, found 17"),
        (lambda f: f.integer("negative", high=9), 0,
         "negative: expected a whole number from 0 to 9, found -1"),
        (lambda f: f.integer("float", high=9), 0, "float: expected a whole number from 0 to 9, found 1.0"),
        (lambda f: f.integer("yes", high=9), 0, "yes: expected a whole number from 0 to 9, found true"),
        (lambda f: f.required_integer("number"), 17, None),
        (lambda f: f.required_integer("nothing"), 0, "nothing: expected a whole number, found nothing"),
        (lambda f: f.port("number"), 17, None),
        (lambda f: f.port("absent"), 0, "absent: expected a port from 1 to 65535, found null"),
        (lambda f: f.port("huge"), 0, "huge: expected a port from 1 to 65535, found a larger number"),
        (lambda f: f.port("yes"), 0, "yes: expected a port from 1 to 65535, found true"),
        (lambda f: f.flag("yes"), True, None),
        (lambda f: f.flag("absent"), False, None),
        (lambda f: f.flag("absent", absent=True), True, None),
        (lambda f: f.flag("number", absent=True), True, "number: expected true or false, found 17"),
        (lambda f: f.count("absent", high=17), 0, None),
        (lambda f: f.count("number", high=17), 17, None),
        (lambda f: f.count("numbers", high=5), 5, None),
        (lambda f: f.count("text", high=9), 0, "text: expected a whole number from 0 to 9, found text"),
        (lambda f: f.count("number", high=16), 0, "number: expected a whole number from 0 to 16, found 17"),
        (lambda f: f.count("numbers", high=4), 0, "numbers: expected a whole number from 0 to 4, found 5"),
        (lambda f: f.texts("absent"), (), None),
        (lambda f: f.texts("texts", limit=1), ("b",), None),
        (lambda f: f.texts("text"), (), "text: expected an array, found text"),
        (lambda f: f.integers("nothing"), (), None),
        (lambda f: f.child("object").text("inner"), "x", None),
        (lambda f: f.child("object").text("gone"), "", None),
        (lambda f: f.child("object").integer("inner", high=9), 0,
         "object.inner: expected a whole number from 0 to 9, found text"),
        (lambda f: list(f.child("absent")), [], None),
        (lambda f: list(f.child("texts")), [], "texts: expected an object, found an array"),
        (lambda f: f.rows("absent", "id"), {}, None),
        (lambda f: f.rows("text", "id"), {}, "text: expected an object, found text"),
        (lambda f: f.peek("number"), 17, None),
        (lambda f: ("number" in f, "nothing" in f, "absent" in f), (True, False, False), None),
        (lambda f: f.as_json("object"), b'{"inner": "x"}', None),
        (lambda f: f.as_json("absent"), b"{}", None),
    ],
)  # fmt: skip
def test_each_read(read: Callable[[Fields], Any], value: object, problem: str | None) -> None:
    fields = Fields(RAW)
    assert read(fields) == value
    assert [f"{p.path}: {p.message}" for p in fields.problems()] == ([problem] if problem else [])


def problems(fields: Fields) -> list[str]:
    return [f"{p.path}: {p.message}" for p in fields.problems()]


def test_one_bad_element_does_not_lose_the_others() -> None:
    fields = Fields(RAW)
    assert fields.texts("texts") == ("b", "c")
    assert fields.integers("numbers") == (0, 5)
    assert problems(fields) == [
        "texts[1]: expected text, found 1",
        "texts[3]: expected text, found text with a lone surrogate",
        "numbers[1]: expected a whole number, found true",
        "numbers[2]: expected a whole number, found -1",
        "numbers[3]: expected a whole number, found text",
    ]


def test_rows_of_an_array_are_found_by_their_id_and_the_last_wins() -> None:
    fields = Fields(RAW)
    rows = fields.rows("objects", "id")
    assert list(rows) == ["a"]
    assert rows["a"].integer("n") == 2
    assert problems(fields) == [
        "objects[1]: expected an object, found 7",
        "objects[2].id: expected text, found nothing",
        "objects[3].id: expected text, found 5",
    ]


def test_rows_of_an_object_are_found_by_their_key() -> None:
    fields = Fields(RAW)
    rows = fields.rows("table", "id")
    assert list(rows) == ["x"]
    assert rows["x"].integer("n") == 1
    assert problems(fields) == [
        "table.y: expected an object, found 3",
        'table[""]: expected an id, found nothing',
        'table["\\ud800"]: the name is not valid text',
    ]


def test_a_path_names_odd_keys_in_quotes_and_shortens_them() -> None:
    fields = Fields({"a.b": {"x" * 1000: 1}})
    fields.child("a.b").text("x" * 1000)
    assert fields.problems()[0].path == f'["a.b"]["{"x" * 80}"]'


def test_what_is_nested_too_deeply_to_be_written_again_is_reported() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    fields = Fields({"deep": deep})
    assert fields.as_json("deep") == b"{}"
    assert problems(fields) == ["deep: nested too deeply"]
    while deep:  # taken apart by hand: its own end would recurse
        deep = deep.pop("a")


def test_a_text_that_holds_an_object() -> None:
    fields = Fields({"good": '{"a": 1}', "array": "[]", "junk": "{", "number": 5})
    assert [fields.json_text(key) for key in fields] == [b'{"a": 1}', b"{}", b"{}", b"{}"]
    assert [problem.path for problem in fields.problems()] == ["array", "junk", "number", "number"]


def test_the_number_of_problems_is_bounded() -> None:
    fields = Fields({"texts": [1] * (PROBLEM_LIMIT + 5)})
    fields.texts("texts")
    found = fields.problems()
    assert len(found) == PROBLEM_LIMIT + 1
    assert found[-1].message == "5 more problems"
    assert fields.problem_count == PROBLEM_LIMIT + 5


@given(json_values)
def test_any_value_is_read_or_reported(value: object) -> None:
    fields = Fields({"x": value})
    fields.text("x"), fields.integer("x"), fields.flag("x"), fields.count("x", high=9)
    fields.texts("x"), fields.integers("x"), list(fields.child("x")), fields.rows("x", "id")
    assert fields.problems() or value is None
    for problem in fields.problems():
        assert problem.path.startswith("x")
        assert problem.path.isascii()
