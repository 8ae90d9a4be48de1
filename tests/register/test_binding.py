"""What an agent concludes from where its server listens."""

from __future__ import annotations

import pytest

from mentatd.register.binding import SILENT_AFTER_S, Finding, Narrow, NeverListened, Watched, Widened, look

NARROW = Watched(note="bound to 10.0.0.1 only", heard=True)


@pytest.mark.parametrize(
    ("before", "addresses", "waited_s", "after", "finding"),
    [
        (Watched(), (), 0.0, Watched(), None),
        (Watched(), ("0.0.0.0",), 1.0, Watched(heard=True), None),
        (Watched(), ("::",), 1.0, Watched(heard=True), None),
        (Watched(), ("10.0.0.1", "::"), 1.0, Watched(heard=True), None),
        (Watched(), ("10.0.0.1",), 1.0, NARROW, Narrow("bound to 10.0.0.1 only")),
        (
            Watched(),
            ("10.0.0.1", "::1"),
            1.0,
            Watched(note="bound to 10.0.0.1,::1 only", heard=True),
            Narrow("bound to 10.0.0.1,::1 only"),
        ),
        (NARROW, ("10.0.0.1",), 9.0, NARROW, None),
        (
            NARROW,
            ("127.0.0.1",),
            9.0,
            Watched(note="bound to 127.0.0.1 only", heard=True),
            Narrow("bound to 127.0.0.1 only"),
        ),
        (NARROW, ("0.0.0.0", "10.0.0.1"), 9.0, Watched(heard=True), Widened()),
        (NARROW, (), 9999.0, NARROW, None),
        (Watched(), (), SILENT_AFTER_S, Watched(warned=True), NeverListened()),
        (Watched(warned=True), (), 9999.0, Watched(warned=True), None),
        (Watched(heard=True), (), 9999.0, Watched(heard=True), None),
        (Watched(warned=True), ("::",), 9999.0, Watched(warned=True, heard=True), None),
    ],
)
def test_look(
    before: Watched, addresses: tuple[str, ...], waited_s: float, after: Watched, finding: Finding | None
) -> None:
    assert look(before, addresses, waited_s) == (after, finding)
