"""Typed reads from JSON of any shape: what is wrong is reported by its path and reads as empty.

An absent field and a null read as empty without a word. A field of a wrong type, or out of range, reads as
empty too and is reported. A row that is no object, or has no id, is left out and reported; nothing else of
the document is affected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from mentatd.errors import WireError
from mentatd.wire.rawjson import BIGGEST, decode_object, is_text, kind

PROBLEM_LIMIT = 100
"""Problems kept of one document; the rest are only counted."""

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_@:-]{1,80}", re.ASCII)
_Path: TypeAlias = "tuple[_Path, str | int] | None"


@dataclass(frozen=True, slots=True)
class Problem:
    """One part of a document that could not be understood and was left out."""

    path: str
    """Where, such as `groups.glm.agents[3].services_ports.openai.port`."""
    message: str


class Report:
    """The problems of one document, bounded."""

    def __init__(self) -> None:
        self._found: list[Problem] = []
        self._more = 0

    def __len__(self) -> int:
        return len(self._found) + self._more

    def add(self, path: _Path, message: str) -> None:
        """Note one problem; past the limit it is only counted."""
        if len(self._found) < PROBLEM_LIMIT:
            self._found.append(Problem(_render(path), message))
        else:
            self._more += 1

    def problems(self) -> tuple[Problem, ...]:
        """All that was found, the last one telling how many more there were."""
        rest = (Problem("", f"{self._more} more problems"),) if self._more else ()
        return (*self._found, *rest)


class Fields:
    """One JSON object of a document, read field by field."""

    __slots__ = ("_path", "_raw", "_report")

    def __init__(self, raw: Mapping[str, Any], report: Report | None = None, path: _Path = None) -> None:
        """Of the whole document, or (inside this module) of a part of it, which shares its report."""
        self._raw = raw
        self._report = Report() if report is None else report
        self._path = path

    def __contains__(self, key: str) -> bool:
        """Whether the field is there and not null."""
        return self._raw.get(key) is not None

    def __iter__(self) -> Iterator[str]:
        """The names of the fields, without those that cannot be text elsewhere."""
        for key in self._raw:
            if is_text(key):
                yield key
            else:
                self.report(key, "the name is not valid text")

    def peek(self, key: str) -> Any:
        """The raw value, None when absent."""
        return self._raw.get(key)

    def problems(self) -> tuple[Problem, ...]:
        """What was found wrong so far in the whole document, in the order in which it was read."""
        return self._report.problems()

    @property
    def problem_count(self) -> int:
        """How many were found so far in the whole document."""
        return len(self._report)

    def report(self, key: str, message: str) -> None:
        """Note that the field `key` is wrong."""
        self._report.add((self._path, key), message)

    def text(self, key: str) -> str:
        """A text; empty when there is none."""
        value = self._raw.get(key)
        if value is None:
            return ""
        if isinstance(value, str) and is_text(value):
            return value
        self.report(key, f"expected text, found {kind(value)}")
        return ""

    def required_text(self, key: str) -> str:
        """A text that may not be empty; it is, and that is reported, when there is none."""
        text = self.text(key)
        if not text and self._raw.get(key) in (None, ""):
            self.report(key, "expected text, found nothing")
        return text

    def integer(self, key: str, *, high: int = BIGGEST) -> int:
        """A whole number from 0 to `high`."""
        value = self._raw.get(key)
        return 0 if value is None else self._whole(key, value, high)

    def required_integer(self, key: str) -> int:
        """A whole number from 0 that must be there; 0, and that is reported, when it is not."""
        if key not in self:
            self.report(key, "expected a whole number, found nothing")
        return self.integer(key)

    def flag(self, key: str, *, absent: bool = False) -> bool:
        """A truth value; `absent` when there is none."""
        value = self._raw.get(key)
        if value is None:
            return absent
        if isinstance(value, bool):
            return value
        self.report(key, f"expected true or false, found {kind(value)}")
        return absent

    def port(self, key: str) -> int:
        """A port from 1 to 65535 that must be there; 0, and that is reported, when it is not."""
        value = self._raw.get(key)
        # not isinstance, here and below: True is an int
        if type(value) is int and 1 <= value <= 65535:
            return value
        self.report(key, f"expected a port from 1 to 65535, found {kind(value)}")
        return 0

    def count(self, key: str, *, high: int) -> int:
        """A number of things up to `high`, given as a whole number or as the array of them."""
        value = self._raw.get(key)
        return (
            0 if value is None else self._whole(key, len(value) if isinstance(value, list) else value, high)
        )

    def texts(self, key: str, *, limit: int | None = None) -> tuple[str, ...]:
        """The non-empty texts of an array; past `limit` elements nothing is looked at."""
        found = []
        for index, value in enumerate(self._array(key)[:limit]):
            if isinstance(value, str) and is_text(value):
                found.append(value)
            else:
                self._report_element(key, index, f"expected text, found {kind(value)}")
        return tuple(filter(None, found))

    def integers(self, key: str) -> tuple[int, ...]:
        """The whole numbers, from 0 up, of an array."""
        found = []
        for index, value in enumerate(self._array(key)):
            if type(value) is int and 0 <= value <= BIGGEST:
                found.append(value)
            else:
                self._report_element(key, index, f"expected a whole number, found {kind(value)}")
        return tuple(found)

    def child(self, key: str) -> Fields:
        """An object inside this one; an empty one when it is absent."""
        value = self._raw.get(key)
        if value is not None and not isinstance(value, dict):
            self.report(key, f"expected an object, found {kind(value)}")
            value = None
        return Fields(value or {}, self._report, (self._path, key))

    def as_json(self, key: str) -> bytes:
        """An object inside this one, as the JSON of it that Python's `json` reads."""
        child = self.child(key)
        try:
            return json.dumps(child._raw).encode()
        except RecursionError:
            self.report(key, "nested too deeply")
            return b"{}"

    def json_text(self, key: str) -> bytes:
        """A text that holds a JSON object, as UTF-8; `{}`, and that is reported, when it holds none."""
        text = self.text(key).encode()
        try:
            decode_object(text)
        except WireError as error:
            self.report(key, f"expected a JSON object as text: {error}")
            return b"{}"
        return text

    def elements(self, key: str) -> Iterator[Fields]:
        """The objects of an array."""
        for index, value in enumerate(self._array(key)):
            if (row := self._row(value, ((self._path, key), index))) is not None:
                yield row

    def rows(self, key: str, id_key: str) -> dict[str, Fields]:
        """The rows of a table by id: an object keyed by id, or an array of rows that hold `id_key`.

        Of rows with one id the last wins.
        """
        value = self._raw.get(key)
        if isinstance(value, list):
            return {id_: row for row in self.elements(key) if (id_ := row.required_text(id_key))}
        table = self.child(key)
        found = {}
        for id_ in table:
            row = self._row(table._raw[id_], (table._path, id_))
            if row is not None and id_:
                found[id_] = row
            elif row is not None:
                table.report(id_, "expected an id, found nothing")
        return found

    def _whole(self, key: str, value: Any, high: int) -> int:
        if type(value) is int and 0 <= value <= high:
            return value
        self.report(key, f"expected a whole number from 0 to {high}, found {kind(value)}")
        return 0

    def _report_element(self, key: str, index: int, message: str) -> None:
        self._report.add(((self._path, key), index), message)

    def _array(self, key: str) -> list[Any]:
        value = self._raw.get(key)
        if isinstance(value, list):
            return value
        if value is not None:
            self.report(key, f"expected an array, found {kind(value)}")
        return []

    def _row(self, value: Any, path: _Path) -> Fields | None:
        if isinstance(value, dict):
            return Fields(value, self._report, path)
        self._report.add(path, f"expected an object, found {kind(value)}")
        return None


def _render(path: _Path) -> str:
    parts: list[str] = []
    while path is not None:
        path, key = path
        if isinstance(key, int):
            parts.append(f"[{key}]")
        elif _PLAIN_KEY.fullmatch(key):
            parts.append(f".{key}")
        else:
            parts.append(f"[{json.dumps(key[:80])}]")
    return "".join(reversed(parts)).removeprefix(".")
