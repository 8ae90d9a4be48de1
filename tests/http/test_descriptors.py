"""How many clients there are descriptors for."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mentatd.http.descriptors import BACKLOG, REFUSED, room_for


@pytest.mark.parametrize(
    ("limit", "used", "clients", "refused", "plenty"),
    [
        (math.inf, 10, 4096, REFUSED, True),
        (1 << 20, 10, 4096, REFUSED, True),
        (20_000, 20, 4096, REFUSED, False),
        (1024, 24, 437, 62, False),
        (256, 24, 101, 14, False),
        (64, 24, 17, 2, False),
        (32, 24, 3, 1, False),
        (10, 24, 1, 1, False),
    ],
)
def test_the_room(limit: float, used: int, clients: int, refused: int, plenty: bool) -> None:
    room = room_for(4096, limit=limit, used=used)
    assert (room.clients, room.refused, room.plenty) == (clients, refused, plenty)


def test_no_more_than_was_wanted() -> None:
    assert room_for(7, limit=20_000, used=20).clients == 7


@given(st.integers(1, 10**6), st.integers(16, 10**6), st.integers(0, 64))
def test_clients_their_engines_and_the_refused_fit_in_what_is_left(
    wanted: int, limit: int, used: int
) -> None:
    room = room_for(wanted, limit=limit, used=used)
    left = limit - used
    if left >= 4:
        assert 2 * room.clients + room.refused + 1 <= left
        assert room.clients <= left // 2
        assert room.refused < limit - room.spared
    if room.plenty:
        assert limit - room.spared == BACKLOG + REFUSED
    assert min(room.clients, room.refused) >= 1
