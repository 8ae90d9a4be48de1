"""What is in the distributions, and that the same source always gives the same bytes."""

from __future__ import annotations

import os
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest
from tests.packaging.distributions import ROOT, build, unpacked

from mentatd import __version__

COMMANDS = ("serve", "lite", "register", "demo")


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sdist, as an installer does where it finds no wheel."""
    source = unpacked(sdist, tmp_path_factory.mktemp("source"))
    return build("wheel", source, tmp_path_factory.mktemp("wheel"))


def test_the_wheel_has_the_whole_package(wheel: Path) -> None:
    package = ROOT / "src/mentatd"
    source = {
        f"mentatd/{path.relative_to(package)}"
        for path in package.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name for name in names if name.startswith("mentatd/")} == source
    assert "mentatd/py.typed" in names
    data = f"mentatd_serve-{__version__}.data/data"
    assert f"{data}/share/man/man1/mentatd-serve.1" in names


def test_its_metadata(wheel: Path) -> None:
    info = f"mentatd_serve-{__version__}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        metadata = BytesParser().parsebytes(archive.read(f"{info}/METADATA"))
        scripts = archive.read(f"{info}/entry_points.txt").decode().split()
    assert wheel.name == f"mentatd_serve-{__version__}-py3-none-any.whl"
    assert metadata["License-Expression"] == "MIT OR Apache-2.0"
    assert len(metadata.get_all("License-File", [])) == 3
    # mentatd is a package of others' as well: no command of that plain name
    names = {word for word in scripts if word.startswith("mentatd-")}
    assert names == {f"mentatd-{command}" for command in COMMANDS}
    assert "mentatd" not in scripts


def test_the_sdist_builds_tests_and_explains_itself(sdist: Path, tmp_path: Path) -> None:
    source = unpacked(sdist, tmp_path / "source")
    for name in (
        *("Makefile", "Dockerfile", "compose.yaml", "requirements-dev.lock", "requirements.lock"),
        *("README.md", "CONTRIBUTING.md", "docs/design.md", "man/mentatd-serve.1", "tests/conftest.py"),
        *("packaging/healthcheck.py", "packaging/systemd/mentatd-serve.service", "bench/README.md"),
    ):
        assert (source / name).is_file(), name


def test_the_same_source_gives_the_same_bytes(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    """At another time, in another folder, under another mask and in another time zone."""
    old = os.umask(0o077)
    try:
        source = unpacked(sdist, tmp_path / "elsewhere")
        for path in source.rglob("*"):
            os.utime(path, (1_500_000_000, 1_500_000_000))
        again = build("sdist", source, tmp_path / "sdist", TZ="Asia/Tokyo")
        wheel_again = build("wheel", source, tmp_path / "wheel", TZ="Asia/Tokyo")
    finally:
        os.umask(old)
    assert wheel_again.read_bytes() == wheel.read_bytes()
    assert again.read_bytes() == sdist.read_bytes()
