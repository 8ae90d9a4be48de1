"""How long an idle connection may wait for the next request."""

from __future__ import annotations

import pytest

from mentatd.http.reuse import (
    LONGEST_S,
    NO_LIMIT,
    SHORTEST_S,
    UNANNOUNCED_S,
    KeepAlive,
    learn,
    read_keep_alive,
    window,
)


@pytest.mark.parametrize(
    ("field", "timeout", "limit"),
    [
        (b"", None, None),
        (b"timeout=5, max=100", 5.0, 100),
        (b"Timeout = 5 ,\tMAX=\"99\"", 5.0, 99),
        (b"timeout=0", 0.0, None),
        (b"max=0", None, 0),
        (b"timeout=-1", None, None),
        (b"timeout=1.5", None, None),
        (b"timeout=9999999999", None, None),
        (b"xtimeout=5", None, None),
        (b"timeout=5 max=3", None, None),
        (b"a, timeout=7, b=c", 7.0, None),
        (b"\xff\x00timeout", None, None),
    ],
)  # fmt: skip
def test_what_the_field_says(field: bytes, timeout: float | None, limit: int | None) -> None:
    assert read_keep_alive(field) == KeepAlive(timeout, limit)


@pytest.mark.parametrize(
    ("timeout", "limit", "served", "learned", "seconds"),
    [
        (None, None, 1, NO_LIMIT, UNANNOUNCED_S),
        (None, None, 1, 0.5, 0.5),
        (None, None, 1, 60.0, UNANNOUNCED_S),
        (None, None, 1, 0.0, 0.0),
        (5.0, None, 1, NO_LIMIT, 4.0),
        (2.0, None, 1, NO_LIMIT, 1.0),
        (1.0, None, 1, NO_LIMIT, 0.5),
        (0.0, None, 1, NO_LIMIT, 0.0),
        (75.0, None, 1, NO_LIMIT, LONGEST_S),
        (75.0, None, 1, 2.0, 2.0),
        (5.0, 100, 99, NO_LIMIT, 4.0),
        (5.0, 100, 100, NO_LIMIT, 0.0),
        (None, 0, 0, NO_LIMIT, 0.0),
        (None, 1, 1, NO_LIMIT, 0.0),
    ],
)
def test_window(
    timeout: float | None, limit: int | None, served: int, learned: float, seconds: float
) -> None:
    assert window(KeepAlive(timeout, limit), served=served, learned=learned) == seconds


@pytest.mark.parametrize(
    ("idle", "learned"),
    [(3.0, 1.5), (1.0, 0.5), (SHORTEST_S * 2, SHORTEST_S), (SHORTEST_S, 0.0), (0.0, 0.0)],
)
def test_what_a_connection_found_closed_teaches(idle: float, learned: float) -> None:
    assert learn(idle) == learned
