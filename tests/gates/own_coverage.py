"""Decisions are covered completely, by branch, each module by its own test file.

Reads the data of a run with `--cov-context=test`: `src/mentatd/<room>/<module>.py` has to be covered by what
`tests/<room>/test_<module>.py` alone runs. `make check` runs it.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from coverage import Coverage
from coverage.exceptions import DataError, NoDataError, NoSource

ROOT = Path(__file__).parent.parent.parent
SRC = Path("src/mentatd")
PURE = ("wire/*.py", "cluster/*.py", "settings.py", "values.py")


def pure_modules() -> Iterator[Path]:
    """The modules under the gate, relative to the repository."""
    for pattern in PURE:
        for path in sorted((ROOT / SRC).glob(pattern)):
            if path.name != "__init__.py":
                yield path.relative_to(ROOT)


def own_tests(module: Path) -> Path:
    inner = module.relative_to(SRC)
    return Path("tests") / inner.parent / f"test_{inner.name}"


def missing(coverage: Coverage, module: Path) -> str | None:
    """What the module's own tests do not run, in words; None: nothing. The empty context is that of imports."""
    tests = own_tests(module)
    if not (ROOT / tests).exists():
        return f"has no {tests}"
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        try:
            coverage.json_report(
                outfile=str(report),
                include=[str(ROOT / module)],
                contexts=["^$", f"^{re.escape(str(tests))}::"],
            )
        except (NoDataError, NoSource):
            return f"is not run by {tests}"
        (file,) = json.loads(report.read_text())["files"].values()
    if not file["missing_lines"] and not file["missing_branches"]:
        return None
    branches = ", ".join(f"{start}->{end}" for start, end in file["missing_branches"])
    return f"{tests} misses lines {file['missing_lines']}, branches [{branches}]"


def by_test(data_file: Path) -> Coverage | None:
    """The data of a run, where it says which test ran what."""
    coverage = Coverage(data_file=str(data_file), config_file=str(ROOT / "pyproject.toml"))
    try:
        coverage.load()
        return coverage if any(coverage.get_data().measured_contexts()) else None
    except DataError:
        # it leaves its connection open to a file that is no database
        coverage.get_data().close(force=True)
        return None


def main(data_file: Path = ROOT / ".coverage") -> int:
    """Exit status: 0 all is covered, 1 something is not, 2 there is nothing to judge by."""
    coverage = by_test(data_file)
    if coverage is None:
        print(
            f"{data_file} does not say which test ran what; `make check` writes it (pytest --cov --cov-context=test)",
            file=sys.stderr,
        )
        return 2
    modules = list(pure_modules())
    faults = [f"{module}: {fault}" for module in modules if (fault := missing(coverage, module))]
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{len(modules) - len(faults)} of {len(modules)} pure modules are covered by their own tests")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
