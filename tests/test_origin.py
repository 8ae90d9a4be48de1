"""A server, named for people."""

from __future__ import annotations

import pytest

from mentatd.origin import Origin


@pytest.mark.parametrize(
    ("origin", "text"),
    [
        (Origin("10.0.0.2", 8000), "http://10.0.0.2:8000"),
        (Origin("::1", 443, True), "https://[::1]:443"),
    ],
)
def test_an_origin_names_itself(origin: Origin, text: str) -> None:
    assert str(origin) == text
