"""`mentatd-lite`: a daemon for nodes whose engines need no placement."""

from __future__ import annotations

import os
import sys

from mentatd.errors import SettingsError
from mentatd.lifetime import refuse, run_until_signal
from mentatd.lite.app import run
from mentatd.lite.settings import OPTIONS, read_settings
from mentatd.notify import READY, notify
from mentatd.options import parse

PROG = "mentatd-lite"
SUMMARY = """\
A mentat daemon for nodes whose engines need no placement: engines register with it
(mentatd-register), and routers find it and read its /status and /events.
A flag goes before its variable. SIGTERM or Ctrl-C ends it: exit 0."""


def main() -> None:
    """Exit status: 0 ended by a signal, 1 a port cannot be had, 2 told something impossible."""
    values = parse(PROG, SUMMARY, OPTIONS, sys.argv[1:], os.environ)
    try:
        settings = read_settings(values, os.environ)
    except SettingsError as error:
        refuse(PROG, error)
    try:
        status = run_until_signal(lambda: run(settings, lambda: notify(os.environ, READY)))
    except SettingsError as error:
        refuse(PROG, error, status=1)
    raise SystemExit(status)


if __name__ == "__main__":
    main()
