"""`python -m bench.guard`: instructions of a request and of a chunk, held to the figures stored in `guard.json`.

Unlike time, they hardly depend on what else the machine does. The router runs under callgrind (valgrind), which does
not count the kernel's part. Figures of another Python say nothing here, so they are stored for each version.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.measure import run
from bench.programs import Running, engine
from bench.router import serve
from bench.workloads import GUARDED, Workload

STORED = Path(__file__).with_name("guard.json")
ALLOWED = 0.15
"""How much more than stored is no failure yet."""
RUN_S = 120.0
UNDER = ("valgrind", "--tool=callgrind", "--instr-atstart=no", "--quiet")
WARM = "I1"
"""Once before the counting, so that every kind of object and every cache is there."""
_TOTAL = re.compile(r"^(?:totals|summary): (\d+)$", re.MULTILINE)


def control(running: Running, *options: str) -> None:
    """Tell callgrind in the router's process something."""
    argv = ["callgrind_control", *options, str(running.pid)]
    subprocess.run(argv, check=True, timeout=RUN_S, capture_output=True)


def counted(folder: Path, running: Running, workload: Workload, cores: str) -> float:
    """Instructions for each unit of one run. Raises RuntimeError when an answer was wrong."""
    for old in folder.glob("counts*"):
        old.unlink()
    control(running, "--zero")
    seen, _ = run(running, workload, cores)
    control(running, "--dump")
    if seen.errors:
        raise RuntimeError(f"{workload.name}: {seen.first_error}")
    (dump,) = folder.glob("counts*")
    total = _TOTAL.search(dump.read_text())
    if total is None:
        raise RuntimeError(f"{dump} holds no total")
    return int(total[1]) / seen.figures[f"{workload.unit}s"]


def measure() -> dict[str, int]:
    """Each guarded workload's instructions for a unit."""
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    os.environ["PYTHONHASHSEED"] = "0"
    with tempfile.TemporaryDirectory(prefix="mentatd-guard-") as name:
        folder = Path(name)
        under = (*UNDER, f"--callgrind-out-file={folder / 'counts'}")
        with engine(folder, cores) as port, serve(folder, port, cores, under) as running:
            control(running, "--instr=on")
            run(running, GUARDED[WARM], cores)
            return {
                workload.unit: round(counted(folder, running, workload, cores))
                for workload in GUARDED.values()
            }


def verdict(found: dict[str, int], stored: dict[str, int]) -> list[str]:
    """The units that cost too much, a sentence each."""
    return [
        f"a {unit} costs {count} instructions, more than {ALLOWED:.0%} above the stored {stored[unit]}"
        for unit, count in found.items()
        if unit in stored and count > stored[unit] * (1 + ALLOWED)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.guard", description=__doc__)
    parser.add_argument("--store", action="store_true", help="store what is measured now")
    chosen = parser.parse_args()
    if not shutil.which("callgrind_control"):
        sys.stderr.write("valgrind is not installed (apt-get install valgrind)\n")
        return 1
    version = platform.python_version()
    figures: dict[str, dict[str, int]] = json.loads(STORED.read_text())
    found, stored = measure(), figures.get(version, {})
    for unit, count in found.items():
        print(f"{unit}: {count} instructions, stored for Python {version}: {stored.get(unit, 'nothing')}")
    if chosen.store:
        STORED.write_text(json.dumps(figures | {version: found}, indent=2) + "\n")
        return 0
    problems = verdict(found, stored)
    sys.stderr.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
