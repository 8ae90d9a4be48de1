"""Reading variables: what is taken, what is ignored, what stops the process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mentatd.environment import Reader, Variable, key, seconds, whole
from mentatd.errors import SettingsError

WAIT_S = Variable("WAIT_S", "a number of seconds above 0", "10", "how long to wait", seconds)
PORTS = Variable("PORTS", "a port", "1,2", "ports", lambda text: whole(text, lowest=1, highest=9))
KEY = Variable("KEY", "a key", "unset", "key", key)
KEY_FILE = Variable("KEY_FILE", "a path", "unset", "file with the key", str)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        ("0.5", 0.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("+5", 5.0),
        ("1e3", 1000.0),
        ("1E-3", 0.001),
        (" 7 ", 7.0),
        ("1e308", 1e308),
    ],
)
def test_seconds(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "0",
        "0.0",
        "-1",
        "nan",
        "inf",
        "-inf",
        "infinity",
        "1e999",
        "1e-999",
        "ten",
        "1_0",
        "0x10",
        "1,5",
        "٣",
        "5s",
    ],
)
def test_no_seconds(text: str) -> None:
    with pytest.raises(ValueError, match=r"no decimal number|not positive and finite"):
        seconds(text)


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("9", 9), (" 5 ", 5), ("0007", 7)])
def test_whole(text: str, value: int) -> None:
    assert whole(text, lowest=0, highest=9) == value


@pytest.mark.parametrize("text", ["", "10", "-1", "+1", "1.0", "1_0", "٣", "1 2", "9" * 5000])
def test_not_whole(text: str) -> None:
    with pytest.raises(ValueError, match=r"no whole number|out of range"):
        whole(text, lowest=0, highest=9)


@pytest.mark.parametrize(
    ("environ", "value", "warnings"),
    [
        ({}, 10.0, []),
        ({"WAIT_S": ""}, 10.0, []),
        ({"WAIT_S": "3"}, 3.0, []),
        ({"WAIT_S": "0"}, 10.0, ["WAIT_S: '0' is not a number of seconds above 0; its default stands (10)"]),
    ],
)
def test_one(environ: dict[str, str], value: float, warnings: list[str]) -> None:
    read = Reader(environ)
    assert read.one(WAIT_S) == value
    assert read.warnings == warnings


def test_a_value_that_is_not_taken_as_it_is() -> None:
    pause_s = Variable("PAUSE_S", "seconds", "9", "a pause", seconds, lambda value: min(value, 5.0))
    read = Reader({"PAUSE_S": "6" * 200})
    assert read.one(pause_s) == 5.0
    assert read.warnings == [f"PAUSE_S: 5.0 is taken in place of '{'6' * 100}…'"]
    near = Reader({"PAUSE_S": "5"})
    assert (near.one(pause_s), near.warnings) == (5.0, [])


def test_a_computed_default() -> None:
    assert Reader({}).one(WAIT_S, 7.0) == 7.0
    assert Reader({"WAIT_S": "x"}).one(WAIT_S, 7.0) == 7.0
    assert Reader({"WAIT_S": "3"}).one(WAIT_S, 7.0) == 3.0


def test_a_long_value_is_quoted_in_part() -> None:
    read = Reader({"WAIT_S": "x" * 5000})
    read.one(WAIT_S)
    assert len(read.warnings[0]) < 250


@pytest.mark.parametrize(
    ("environ", "may_be_empty", "values", "warnings"),
    [
        ({}, False, (1, 2), []),
        ({}, True, (1, 2), []),
        ({"PORTS": ""}, False, (1, 2), []),
        ({"PORTS": ""}, True, (), []),
        ({"PORTS": " "}, True, (), []),
        ({"PORTS": ","}, False, (), []),
        ({"PORTS": "3, 4,,3"}, False, (3, 4), []),
        ({"PORTS": "3,x,4"}, False, (3, 4), ["PORTS: 'x' is not a port; the entry is left out"]),
        ({"PORTS": "x"}, True, (), ["PORTS: 'x' is not a port; the entry is left out"]),
    ],
)
def test_many(
    environ: dict[str, str], may_be_empty: bool, values: tuple[int, ...], warnings: list[str]
) -> None:
    read = Reader(environ)
    assert read.many(PORTS, may_be_empty=may_be_empty) == values
    assert read.warnings == warnings


@pytest.mark.parametrize(
    ("environ", "secret"),
    [
        ({}, None),
        ({"KEY": ""}, None),
        ({"KEY": "k"}, b"k"),
        ({"KEY": " k\t\n"}, b"k"),
        ({"KEY": "kü"}, "kü".encode()),
        ({"KEY": os.fsdecode(b"k\xff")}, b"k\xff"),
        ({"KEY": "k", "KEY_FILE": ""}, b"k"),
    ],
)
def test_a_secret(environ: dict[str, str], secret: bytes | None) -> None:
    read = Reader(environ)
    assert read.secret(KEY, KEY_FILE) == secret
    assert read.warnings == []


def test_a_secret_of_white_space_is_none_and_said() -> None:
    read = Reader({"KEY": " \n"})
    assert read.secret(KEY, KEY_FILE) is None
    assert read.warnings == ["KEY: its value is not a key; no key is set"]


def test_a_value_that_is_no_key_is_not_shown(tmp_path: Path) -> None:
    digits = Variable("KEY", "a key of digits", "unset", "", lambda text: str(int(text)).encode())
    read = Reader({"KEY": "hush"})
    assert read.secret(digits, KEY_FILE) is None
    assert read.warnings == ["KEY: its value is not a key of digits; no key is set"]
    file = tmp_path / "key"
    file.write_text("hush")
    with pytest.raises(SettingsError, match=r"KEY_FILE=.*/key: what the file holds is not a key of digits"):
        Reader({"KEY_FILE": str(file)}).secret(digits, KEY_FILE)


@pytest.mark.parametrize("content", [b"file key", b"\r\n file key \n"])
def test_a_secrets_file_wins(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    assert Reader({"KEY": "k", "KEY_FILE": str(file)}).secret(KEY, KEY_FILE) == b"file key"


@pytest.mark.parametrize("content", [b"", b" \n", b"x" * 65537])
def test_a_file_that_holds_no_key_stops_the_process(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    with pytest.raises(SettingsError, match=r"KEY_FILE=.*/key: (the file holds nothing|over 65536 bytes)"):
        Reader({"KEY": "k", "KEY_FILE": str(file)}).secret(KEY, KEY_FILE)


def test_a_file_that_cannot_be_read_stops_the_process(tmp_path: Path) -> None:
    for path, reason in (
        (str(tmp_path / "none"), "No such file or directory"),
        (str(tmp_path), "Is a directory"),
        ("a\0b", "null byte"),
    ):
        with pytest.raises(SettingsError, match=rf"KEY_FILE=.*: .*{reason}"):
            Reader({"KEY": "k", "KEY_FILE": path}).secret(KEY, KEY_FILE)


@given(st.text())
def test_any_text_is_read_or_ignored(text: str) -> None:
    read = Reader({"WAIT_S": text, "PORTS": text})
    assert read.one(WAIT_S) > 0
    assert all(1 <= port <= 9 for port in read.many(PORTS))
