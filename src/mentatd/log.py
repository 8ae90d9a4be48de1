"""Log lines: `mentat ts=<seconds.millis> event=<name> key=value …` on standard error (wire.md section 6)."""

from __future__ import annotations

import re
import sys
import time

_PLAIN = re.compile(r"[^\s\"=\\]+")
_LIMIT = 500


def quote(value: object) -> str:
    """One logfmt value: bare where it can be, or else in double quotes with escapes, on one line, cut at 500."""
    text = str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
    if len(text) > _LIMIT:
        text = text[:_LIMIT] + "…"
    if _PLAIN.fullmatch(text) and text.isprintable():
        return text
    escaped = "".join(
        f"\\{c}" if c in '"\\' else c if c.isprintable() else c.encode("unicode_escape").decode()
        for c in text
    )
    return f'"{escaped}"'


def line(ts: float, event: str, fields: dict[str, object]) -> str:
    """The whole line without its newline; `ts` is Unix time in seconds."""
    return f"mentat ts={ts:.3f} event={event}" + "".join(
        f" {key}={quote(value)}" for key, value in fields.items()
    )


def log(event: str, /, **fields: object) -> None:
    """Write one line to standard error. A closed or full standard error never harms the caller."""
    try:
        sys.stderr.write(line(time.time(), event, fields) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass
