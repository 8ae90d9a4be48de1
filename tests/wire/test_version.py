"""Which protocol versions are read."""

from __future__ import annotations

import pytest

from mentatd.wire.version import PROTO, is_spoken


@pytest.mark.parametrize("proto", [PROTO, "0.5", "1.0", "01.7", "1.99999"])
def test_majors_0_and_1_are_read(proto: str) -> None:
    assert is_spoken(proto)


@pytest.mark.parametrize(
    "proto", ["2.0", "10.0", "1", "1.", ".9", "1.0.0", " 1.0", "1.0\n", "", "１.0", 1, 0.99, None, []]
)
def test_anything_else_is_not(proto: object) -> None:
    assert not is_spoken(proto)
