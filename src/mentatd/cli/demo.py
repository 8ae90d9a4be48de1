"""`mentatd-demo`: a whole cluster on loopback, to try the router on."""

from __future__ import annotations

import os
import sys

from mentatd.demo.app import OPTIONS, PROG, read_settings, run
from mentatd.errors import SettingsError
from mentatd.lifetime import refuse, run_until_signal
from mentatd.options import parse

SUMMARY = """\
Start a small cluster on this machine and tell what to try on it: two daemons, three tiny
engines of which one comes and goes, and the router. Nothing of it is reachable from other
machines. Ctrl-C or SIGTERM ends all of it: exit 0."""


def main() -> None:
    """Exit status: 0 ended by a signal, 1 a program of the cluster ended on its own, 2 it cannot start."""
    values = parse(PROG, SUMMARY, OPTIONS, sys.argv[1:], os.environ)
    try:
        settings = read_settings(values)
    except SettingsError as error:
        refuse(PROG, error)
    raise SystemExit(run_until_signal(lambda: run(settings)))


if __name__ == "__main__":
    main()
