"""An address and a port as one text, IPv6 in brackets."""

from __future__ import annotations


def join(host: str, port: int) -> str:
    """`10.0.0.1:6380`, or `[fd00::1]:6380`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split(text: str) -> tuple[str, int]:
    """Host, without brackets, and port of such a text; port 0 when it has none from 1 to 65535, or no host."""
    host, _, digits = text.rpartition(":")
    # isdecimal alone takes digits of every script
    port = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= 5 else 0
    return host.removeprefix("[").removesuffix("]"), port if port <= 65535 and host else 0
