"""The image, without a container: its build is run on what the sdist holds, then the very commands that it runs.

So this is also the wheel, built from the sdist and installed into a clean environment.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.packaging.distributions import build
from tests.packaging.image import DOCKERFILE, Image, array, instructions, one
from tests.support.cluster import FAST, Cluster, Router
from tests.support.commands import BIN
from tests.support.engine import running
from tests.support.ports import free_port

from mentatd import __version__

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(300)]

COMMANDS = ("mentatd-serve", "mentatd-lite", "mentatd-register", "mentatd-demo")


def run(*words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_a_linter_has_nothing_to_say() -> None:
    hadolint = shutil.which("hadolint", path=BIN)
    assert hadolint, "make test-wheel installs it"
    done = run(hadolint, DOCKERFILE)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_it_is_not_root_and_has_no_shell_between_itself_and_signals() -> None:
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", one("USER"))
    assert one("STOPSIGNAL") == "SIGTERM"
    assert array(one("ENTRYPOINT")) == ["mentatd-serve"]


@pytest.mark.parametrize("compiled", ["", "1"])
def test_one_argument_makes_it_the_compiled_one(tmp_path: Path, compiled: str) -> None:
    said = tmp_path / "said"
    for name in ("apt-get", "pip", "python", "rm"):
        stub = tmp_path / name
        stub.write_text(f'#!/bin/sh\necho "$HATCH_BUILD_HOOK_ENABLE_CUSTOM {name} $*" >> {said}\n')
        stub.chmod(0o755)
    for word, rest in instructions():
        if word == "RUN":
            assert run("/bin/sh", "-ec", rest, PATH=str(tmp_path), COMPILED=compiled).returncode == 0
    lines = said.read_text().splitlines()
    assert any("gcc" in line for line in lines) is bool(compiled)
    assert [line.partition(" ")[0] for line in lines if "pip wheel" in line] == ["true" if compiled else ""]


def test_the_build_context_has_what_the_build_needs(image: Image, tmp_path: Path) -> None:
    """`.dockerignore` leaves out everything but these; the wheel is built from them alone."""
    lines = (image.source / ".dockerignore").read_text().split()
    assert lines[0] == "*"
    for pattern in (line[1:] for line in lines[1:]):
        assert pattern, "only exceptions"
        for path in image.source.glob(pattern):
            target = tmp_path / path.relative_to(image.source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(path, target) if path.is_dir() else shutil.copy(path, target)
    assert build("wheel", tmp_path, tmp_path / "made").is_file()
    for word, rest in instructions():
        if word == "COPY" and "--from" not in rest:
            for name in rest.split()[:-1]:
                assert (tmp_path / name).exists(), name


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_runs_from_the_installation_alone(image: Image, name: str) -> None:
    done = run(image.bin / name, "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{name} {__version__}\n", "")
    assert run(image.bin / name, "--help").stdout.startswith(f"usage: {name}")
    where = run(image.bin / "python", "-c", "import mentatd; print(mentatd.__file__)").stdout
    assert where.startswith(str(image.root / "opt/mentatd/"))


def test_its_types_are_seen_by_those_who_import_it(image: Image, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import mentatd\nreveal_type(mentatd.__version__)\n")
    done = run(
        *(sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}"),
        *(f"--python-executable={image.bin / 'python'}", program),
    )
    assert 'Revealed type is "str"' in done.stdout.replace("builtins.", ""), done.stdout + done.stderr
    assert done.returncode == 0


def test_its_manual_page_is_where_man_looks(image: Image) -> None:
    assert (image.root / "opt/mentatd/share/man/man1/mentatd-serve.1").is_file()


def test_the_installed_programs_are_a_cluster(image: Image, tmp_path: Path) -> None:
    """Daemon, agent and router of the installation, an engine behind them, and the image's health check."""
    port = free_port()
    check = array(one("HEALTHCHECK"))
    assert run(*image.command(check), SERVE_PORT=str(port)).returncode == 1
    with running("tiny") as engine, Cluster(tmp_path) as cluster:
        lite = cluster.run(
            f"{image.bin}/mentatd-lite --bind 127.0.0.1 --port 0 --http-port 0 --announce-port 0"
        )
        up = lite.event("lite_up")
        cluster.run(
            f"{image.bin}/mentatd-register --group g --openai {engine.port}/v1"
            f" --address 127.0.0.1:{up['control']}"
        )
        (entrypoint,) = image.command(array(one("ENTRYPOINT")))
        environ = {"SERVE_PORT": str(port), "MENTAT_DAEMONS": f"127.0.0.1:{up['http']}"}
        serve = cluster.run(entrypoint, **(FAST | environ))
        serve.event("serve_up")
        router = Router(serve, port)
        router.wait_models("tiny")
        assert router.post("/v1/chat/completions", model="tiny", messages=[]).status == 200
        assert b"<!doctype html>" in router.ask("GET", "/", fields={"Accept": "text/html"}).body.lower()
        assert run(*image.command(check), SERVE_PORT=str(port)).returncode == 0
        # the daemon's, as compose.yaml asks it
        assert run(*image.command([*check, up["http"]])).returncode == 0


def test_a_refused_client_is_a_healthy_answer(image: Image, tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        router = cluster.router(ALLOWED_SOURCES="10.0.0.0/8", MENTAT_ANNOUNCE_PORT="0")
        assert router.ask("GET", "/healthz").status == 403
        check = run(*image.command(array(one("HEALTHCHECK"))), SERVE_PORT=str(router.port))
        assert check.returncode == 0
