"""`python -m bench`: every workload through every program in turn, round by round, then tables on standard output."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import report
from bench.machine import facts
from bench.peers import PEERS
from bench.programs import Peer
from bench.reference import DIRECT, NGINX
from bench.rounds import rounds
from bench.router import COMPILED_ROUTER, OURS, ROUTER
from bench.rows import Row, write_facts, write_row
from bench.workloads import QUICK, WORKLOADS, Workload, family

PROGRAMS = {peer.name: peer for peer in (DIRECT, NGINX, ROUTER, COMPILED_ROUTER)} | PEERS
ALL = "all"


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the command line says."""

    rounds: int
    workloads: tuple[Workload, ...]
    peers: tuple[Peer, ...]
    """Those that are installed."""
    missing: tuple[Peer, ...]
    """Those of `all` that are not."""
    output: Path | None


def choose(arguments: Sequence[str]) -> Chosen:
    """Raises SystemExit, with a message, for what cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("-r", "--rounds", type=int, default=3)
    parser.add_argument(
        "-w",
        "--workloads",
        default=",".join(QUICK),
        help=f"of {', '.join(WORKLOADS)}; all; default: %(default)s",
    )
    parser.add_argument(
        "-p",
        "--programs",
        default=_usual(),
        help=f"of {', '.join(PROGRAMS)}; all: those that are installed; default: %(default)s",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE.jsonl",
        help="append the raw rows; write FILE.md and FILE.svg",
    )
    chosen = parser.parse_args(arguments)
    try:
        names = WORKLOADS if chosen.workloads == ALL else chosen.workloads.split(",")
        workloads = [WORKLOADS[member] for name in names for member in family(name)]
        asked = [PROGRAMS[name] for name in _names(chosen.programs)]
    except KeyError as error:
        parser.error(f"there is no {error}")
    if chosen.rounds < 1:
        parser.error("at least one round")
    missing = [peer for peer in asked if not peer.installed()]
    if missing and chosen.programs != ALL:
        parser.error(f"not installed: {', '.join(peer.name for peer in missing)} (bench/README.md says how)")
    peers = tuple(peer for peer in asked if peer not in missing)
    return Chosen(chosen.rounds, tuple(dict.fromkeys(workloads)), peers, tuple(missing), chosen.output)


def _usual() -> str:
    """nginx and this router, the compiled build too where `make compiled` has left it."""
    compiled = PROGRAMS[COMPILED_ROUTER.name]
    return ",".join((NGINX.name, ROUTER.name, *([compiled.name] if compiled.installed() else ())))


def _names(programs: str) -> Iterable[str]:
    return PROGRAMS if programs == ALL else dict.fromkeys(programs.split(","))


def measured(chosen: Chosen) -> list[Row]:
    """Every row, told and written down as it comes."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="mentatd-bench-") as folder:
        for row in rounds(chosen.peers, chosen.workloads, chosen.rounds, Path(folder)):
            rows.append(row)
            said = row.error or ", ".join(f"{name} {value:g}" for name, value in row.figures.items())
            print(f"round {row.round}: {row.program} {row.workload}: {said}", file=sys.stderr, flush=True)
            if chosen.output:
                with chosen.output.open("a") as out:
                    out.write(write_row(row) + "\n")
    return rows


def main() -> int:
    # the programs under test end with the block that started them, not with a process that is cut down
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    chosen = choose(sys.argv[1:])
    run = facts((*chosen.peers, *chosen.missing))
    if chosen.output:
        with chosen.output.open("a") as out:
            out.write(write_facts(run) + "\n")
    rows = measured(chosen)
    if chosen.output:
        report.write(chosen.output)
    print(report.tables([run], rows))
    return 1 if any(row.error for row in rows if row.program in OURS) else 0


if __name__ == "__main__":
    raise SystemExit(main())
