"""What an agent says of the hardware that it offers (wire.md section 4)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device that the agent may bind."""

    index: int
    vendor: str = ""
    name: str = ""
    """The vendor's product text; generation A does not say it."""
    memory: int = 0
    """Bytes; generation A does not say it."""
    uma: bool = False
    """Its memory is the machine's own."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine as far as the agent offers it."""

    cpus: int = 0
    memory: int = 0
    """Bytes; generation A does not say it."""
    gpus: tuple[Gpu, ...] = ()
