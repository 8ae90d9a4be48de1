"""The protocol version that both generations carry or lack (wire.md, first table and section 4)."""

from __future__ import annotations

import re
from typing import Literal

Generation = Literal["A", "B"]
"""A: no `proto` anywhere. B: `proto` in the snapshot, the announcement and every opening frame."""

PROTO = "0.99"
"""What generation B says of itself."""

_SPOKEN = re.compile(r"0*[01]\.[0-9]+", re.ASCII)


def is_spoken(proto: object) -> bool:
    """Whether `proto` is a version that this project reads: `major.minor` as text, the major 0 or 1."""
    return isinstance(proto, str) and _SPOKEN.fullmatch(proto) is not None
