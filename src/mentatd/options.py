"""A command's options as one table: each a flag, an environment variable, or both.

The table drives the command line, its `--help`, and the table on the command's page (a test compares).
What an option's text means is read here too, so that every command says the same of the same mistake.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from mentatd import __version__
from mentatd.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Option:
    """One thing that a command can be told."""

    flag: str
    """Its name on the command line without the dashes; empty where only the environment can say it."""
    variable: str
    """Its environment variable; empty where only the command line can say it."""
    default: str
    """What it reads as when nobody says it."""
    help: str
    """One phrase, without a full stop."""
    value: str = ""
    """What its value is, as `--help` names it behind the flag: HOST:PORT, SECONDS. For one with a flag."""
    shown: str = ""
    """How the default is told where its text alone says too little, such as `the host name`."""
    alone: str = ""
    """What the flag says without a value; empty where it needs one."""

    @property
    def name(self) -> str:
        """What the user calls it."""
        return f"--{self.flag}" if self.flag else self.variable


def parse(
    prog: str, summary: str, options: Sequence[Option], argv: Sequence[str], environ: Mapping[str, str]
) -> Mapping[str, str]:
    """Every option's text by its name: the flag, else the variable unless it is empty, else the default.

    `--help` and `--version` print and exit 0; a command line that cannot be read prints the usage, exit 2.
    """
    given = vars(_parser(prog, summary, options).parse_args(argv))
    return {
        option.name: (given.get(option.flag) or environ.get(option.variable) or option.default).strip()
        for option in options
    }


def _parser(prog: str, summary: str, options: Sequence[Option]) -> argparse.ArgumentParser:
    alone = [f"  {option.variable}: {_told(option)}" for option in options if not option.flag]
    parser = argparse.ArgumentParser(
        prog=prog,
        description=summary,
        epilog="from the environment only:\n" + "\n".join(alone) if alone else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{prog} {__version__}")
    for option in options:
        if option.flag:
            variable = f"{option.variable}; " if option.variable else ""
            told = f"{option.help} ({variable}{option.shown or option.default})".replace("%", "%%")
            parser.add_argument(
                f"--{option.flag}",
                dest=option.flag,
                metavar=option.value,
                nargs="?" if option.alone else None,
                const=option.alone or None,
                help=told,
            )
    return parser


def _told(option: Option) -> str:
    return f"{option.help} ({option.shown or option.default})"


def port(name: str, text: str, *, lowest: int = 1) -> int:
    """A port number. `lowest` is 0 for an option that gives 0 a meaning. Raises SettingsError."""
    return _whole(name, text, lowest, 65535, "a port number")


def count(name: str, text: str) -> int:
    """A whole number up to a million. Raises SettingsError."""
    return _whole(name, text, 0, 1_000_000, "a whole number")


def seconds(name: str, text: str, *, lowest: float = 0.0) -> float:
    """A duration above zero, and not under `lowest`. Raises SettingsError."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf or value < lowest:
        least = f"from {lowest:g}" if lowest else "above 0"
        raise SettingsError(f"{name}={text!r} is not a number of seconds {least}")
    return value


def milliseconds(name: str, text: str, *, lowest: int = 0) -> int:
    """A whole number of milliseconds up to a month. Raises SettingsError."""
    return _whole(name, text, lowest, 31 * 24 * 3600 * 1000, "a number of milliseconds")


def word(name: str, text: str) -> str:
    """A name of something, up to 200 printable characters. Raises SettingsError."""
    if len(text) > 200 or not text.isprintable():
        raise SettingsError(f"{name}={text[:200]!a} is not a name of up to 200 printable characters")
    return text


def address(name: str, text: str) -> str:
    """A numeric IP address in its one text, never a wildcard. Raises SettingsError."""
    try:
        found = ip_address(text)
    except ValueError:
        raise SettingsError(f"{name}={text!r} is not an IP address") from None
    if found.is_unspecified:
        raise SettingsError(f"{name}={text!r} is every address; leave it out for that")
    return str(found)


def host_port(name: str, text: str, default_port: int) -> tuple[str, int]:
    """`host`, `host:port`, `[::1]:port` or a bare IPv6 address; the host comes back without brackets.

    Raises SettingsError.
    """
    host, colon, number = text.rpartition(":")
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        colon, number = rest[:1], rest[1:]
        if not bracket or colon not in ("", ":"):
            raise SettingsError(f"{name}={text!r} is not an address: a bracket is missing")
    elif not colon or ":" in host:
        host, colon = text, ""
    if not host or any(c.isspace() or c in "/@" for c in host):
        raise SettingsError(f"{name}={text!r} is not an address like 10.0.0.1:{default_port}")
    return host, port(name, number) if colon else default_port


def _whole(name: str, text: str, lowest: int, highest: int, what: str) -> int:
    value = int(text) if text.isascii() and text.isdigit() and len(text) < 12 else -1
    if not lowest <= value <= highest:
        raise SettingsError(f"{name}={text!r} is not {what} from {lowest} to {highest}")
    return value
