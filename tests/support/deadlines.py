"""Waiting in tests: always for something that will be seen, and never for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

DEADLINE_S = 10.0
"""Far more than anything here takes; a test that comes near it is broken, not slow."""

_LOOK_S = 0.005


def within(seconds: float = DEADLINE_S) -> asyncio.Timeout:
    """`async with within(): …` fails with TimeoutError when its body is not done in time."""
    return asyncio.timeout(seconds)


async def until(condition: Callable[[], object], seconds: float = DEADLINE_S) -> None:
    """Return once `condition()` is true. For what has no event to wait on; raises TimeoutError."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds} s: {_told(condition)}")
        await asyncio.sleep(_LOOK_S)


def wait_until(condition: Callable[[], object], seconds: float = DEADLINE_S) -> None:
    """`until` for tests without an event loop."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds} s: {_told(condition)}")
        time.sleep(_LOOK_S)


def _told(condition: Callable[[], object]) -> str:
    code = getattr(condition, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(condition)
