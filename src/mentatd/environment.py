"""Reading environment variables that fall back: a value that is wrong is ignored with a sentence about it.

The exception is a secret's file: a process that was told to read one must not run without it.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from mentatd.errors import SettingsError

_SECRET_LIMIT = 64 * 1024
"""Bytes; a key is a line, and a wrong path (a device, a model's weights) must not fill the memory."""

_SHOWN = 100
"""A value is quoted to this many characters."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Variable(Generic[T]):
    """One environment variable: its whole rule."""

    name: str
    value: str
    """What a value looks like, of a list one entry."""
    default: str
    """A text that `parse` reads, or words where the default is no fixed text."""
    help: str
    """One phrase or sentence."""
    parse: Callable[[str], T]
    """Reads such a value. Raises ValueError for what is to be ignored."""
    nearest: Callable[[T], T] | None = None
    """What is taken for a value that was read, which is the value itself where it does no harm; None: always it."""


class Reader:
    """Reads variables of one environment and keeps what it had to ignore."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.warnings: list[str] = []
        """One sentence for each value or entry that was not taken as it is."""

    def one(self, variable: Variable[T], computed: T | None = None) -> T:
        """The value; unset, empty and unreadable take `computed`, or else the variable's default."""
        text = self._environ.get(variable.name, "")
        if text:
            try:
                return self._nearest(variable, text, variable.parse(text))
            except ValueError:
                self._ignore(variable, text, f"its default stands ({variable.default})")
        return variable.parse(variable.default) if computed is None else computed

    def many(
        self, variable: Variable[T], computed: tuple[T, ...] | None = None, *, may_be_empty: bool = False
    ) -> tuple[T, ...]:
        """The entries of a comma-separated list, each once, without those that cannot be read.

        Unset and empty take `computed`, or else the variable's default.
        `may_be_empty`: set and empty is no entry, and not the default.
        """
        text = self._environ.get(variable.name)
        if text is None or not (text or may_be_empty):
            if computed is not None:
                return computed
            text = variable.default
        entries: dict[T, None] = {}
        for entry in filter(None, map(str.strip, text.split(","))):
            try:
                entries[variable.parse(entry)] = None
            except ValueError:
                self._ignore(variable, entry, "the entry is left out")
        return tuple(entries)

    def secret(self, variable: Variable[bytes], file: Variable[str]) -> bytes | None:
        """What `file` names holds, or else the variable; white space at both ends does not count.

        Raises SettingsError for a file that cannot be read, or holds nothing or no such value.
        """
        path = self._environ.get(file.name, "")
        text = self._environ.get(variable.name, "")
        if path:
            text = os.fsdecode(_read_secret(file.name, path))
        elif not text:
            return None
        try:
            secret = variable.parse(text).strip()
        except ValueError:
            secret = b""
        if secret:
            return secret
        if path:
            raise SettingsError(f"{file.name}={path}: what the file holds is not {variable.value}")
        # not shown: it may be most of a real one
        self.warnings.append(f"{variable.name}: its value is not {variable.value}; no key is set")
        return None

    def _nearest(self, variable: Variable[T], text: str, value: T) -> T:
        taken = value if variable.nearest is None else variable.nearest(value)
        if taken != value:
            self.warnings.append(f"{variable.name}: {taken} is taken in place of {_shown(text)}")
        return taken

    def _ignore(self, variable: Variable[T], text: str, so: str) -> None:
        self.warnings.append(f"{variable.name}: {_shown(text)} is not {variable.value}; {so}")


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


def _read_secret(name: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            raw = file.read(_SECRET_LIMIT + 1)
    except OSError as error:
        raise SettingsError(f"{name}={path}: {error.strerror}") from error
    except ValueError as error:
        raise SettingsError(f"{name}={path!r}: {error}") from error
    if len(raw) > _SECRET_LIMIT:
        raise SettingsError(f"{name}={path}: over {_SECRET_LIMIT} bytes; that is no key")
    if not raw.strip():
        raise SettingsError(f"{name}={path}: the file holds nothing but white space")
    return raw.strip()


def seconds(text: str) -> float:
    """A positive finite number. Raises ValueError."""
    if not re.fullmatch(r"\+?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", text.strip(), re.IGNORECASE):
        raise ValueError("no decimal number")
    value = float(text)
    if not 0 < value < math.inf:
        raise ValueError("not positive and finite")
    return value


def whole(text: str, *, lowest: int, highest: int) -> int:
    """A whole number in digits. Raises ValueError."""
    if not re.fullmatch(r"[0-9]{1,10}", text.strip()):
        raise ValueError("no whole number")
    value = int(text)
    if not lowest <= value <= highest:
        raise ValueError("out of range")
    return value


def key(text: str) -> bytes:
    """The bytes of the variable, as the process was given them."""
    return os.fsencode(text)
