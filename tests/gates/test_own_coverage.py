"""The gate says what is wrong, also where there is nothing to judge by."""

from __future__ import annotations

from pathlib import Path

import pytest
from coverage import CoverageData

from tests.gates import own_coverage
from tests.gates.own_coverage import ROOT, main

MODULE = Path("src/mentatd/wire/hostport.py")


def recorded(path: Path, context: str | None, lines: int) -> Path:
    """The data of a run that has seen the first `lines` lines of `MODULE`."""
    data = CoverageData(str(path))
    data.set_context(context)
    data.add_arcs({str(ROOT / MODULE): [(line, line + 1) for line in range(1, lines)]})
    data.write()
    return path


@pytest.fixture(autouse=True)
def one_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_coverage, "pure_modules", lambda: iter([MODULE]))


@pytest.mark.parametrize("content", [None, b"", b"no database"])
def test_without_data_it_says_what_makes_it(
    content: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data_file = tmp_path / "coverage"
    if content is not None:
        data_file.write_bytes(content)
    assert main(data_file) == 2
    assert f"{data_file} does not say which test ran what; `make check` writes it" in capsys.readouterr().err


def test_data_that_names_no_test_is_no_data(tmp_path: Path) -> None:
    assert main(recorded(tmp_path / "coverage", None, 9)) == 2


def test_a_module_that_nothing_ran_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data_file = recorded(tmp_path / "coverage", "tests/wire/test_hostport.py::test", 9)
    unseen = Path("src/mentatd/wire/sse.py")
    monkeypatch.setattr(own_coverage, "pure_modules", lambda: iter([unseen]))
    assert main(data_file) == 1
    assert f"{unseen}: is not run by tests/wire/test_sse.py" in capsys.readouterr().err


def test_what_its_own_tests_miss_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(recorded(tmp_path / "coverage", "tests/wire/test_hostport.py::test", 9)) == 1
    told = capsys.readouterr()
    assert f"{MODULE}: tests/wire/test_hostport.py misses lines [" in told.err
    assert "0 of 1 pure modules" in told.out


def test_a_module_that_its_own_tests_run_whole_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(recorded(tmp_path / "coverage", "tests/wire/test_hostport.py::test", 99)) == 0
    assert "1 of 1 pure modules" in capsys.readouterr().out
