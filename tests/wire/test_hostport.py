"""An address and its port as one text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mentatd.wire.hostport import join, split


@pytest.mark.parametrize(("host", "text"), [("10.0.0.1", "10.0.0.1:1"), ("fd00::1", "[fd00::1]:1")])
def test_both_ways(host: str, text: str) -> None:
    assert join(host, 1) == text
    assert split(text) == (host, 1)


@pytest.mark.parametrize(
    "text", ["", "node1", ":6379", "node1:", "node1:65536", "node1:\u0661", "node1:100000"]
)
def test_what_has_no_port(text: str) -> None:
    assert split(text)[1] == 0


@given(st.text())
def test_any_text_is_split(text: str) -> None:
    assert 0 <= split(text)[1] <= 65535
