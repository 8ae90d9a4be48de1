"""Every command of every page runs: against real processes, or, where it would change this machine, elsewhere."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from tests.docs.blocks import ROOT, Block, blocks, commands, service
from tests.docs.world import world
from tests.support.ports import free_port

from mentatd.options import parse
from mentatd.register.enginefile import read_file
from mentatd.register.settings import OPTIONS

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")])

ELSEWHERE = re.compile(
    r"(/opt/mentatd/bin/|HATCH_\w+=true )?(sudo|pip|pipx|uv|docker|make|claude|codex|gemini|mentatd-demo"
    r"|python3 -m venv /opt|python -m mentatd.demo.engine)\b"
)
"""Not run here: installing (tests/packaging does, in a folder), what needs a container's daemon or another's
program, and what has tests of its own (the demonstration, the targets of the Makefile)."""
CLUSTER = (
    "mentatd-lite &",
    "mentatd-register --group my-model --openai 8000/v1 --provider vllm &",
    "mentatd-serve &",
)
BROKEN = ("mentatd-register --group glm --mcp 9000/mcp &", "mentatd-register --group qwen --openai 8001/v1 &")
BEGUN = {
    "clients.md": CLUSTER,
    "mcp.md": CLUSTER,
    "networks.md": CLUSTER,
    "register.md": CLUSTER[:1],
    "scaling-out.md": CLUSTER,
    "tokens.md": CLUSTER,
    "troubleshooting.md": (*CLUSTER, *BROKEN),
}
"""What runs before a page's first command; on the others the page starts everything itself."""


def runs(block: Block) -> bool:
    return bool(commands(block)) or block.language == "python"


TOOLS = ("curl", "jq", "ss", "openssl")
"""Beside our own, what the commands of pages use."""
LOCAL = re.compile(r"http://(?:127\.0\.0\.1|<router>):6381[^\s\"',)]*")


def here_to_run(block: Block) -> list[str]:
    return [command for command in commands(block) if not ELSEWHERE.match(command)]


def acting(page: Path) -> list[Block]:
    """The blocks of which something is run here."""
    return [block for block in blocks(page) if here_to_run(block) or block.language == "python"]


def elsewhere() -> list[str]:
    """Every other command, once."""
    found = (command for page in PAGES for block in blocks(page) for command in commands(block))
    return sorted(set(filter(ELSEWHERE.match, found)))


@pytest.mark.parametrize("page", [page for page in PAGES if acting(page)], ids=lambda page: page.name)
def test_a_pages_commands_do_what_it_says(page: Path, tmp_path: Path) -> None:
    """One after the other, as a reader does."""
    said = " ".join(command for block in acting(page) for command in here_to_run(block))
    for tool in TOOLS:
        if re.search(rf"(^|\| *|[ (]){tool} ", said) and shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")
    with world(tmp_path, engines=2 if page.name == "scaling-out.md" else 1) as here:
        for command in BEGUN.get(page.name, ()):
            here.start(command)
        for block in acting(page):
            if block.language == "python":
                here.python(block.text)
                continue
            todo = here_to_run(block)
            for command in todo:
                if service(command):
                    here.start(command)
                else:
                    here.run(command, block.shown if command == todo[-1] else "")


@pytest.mark.parametrize("name", ["clients.md", "mcp.md"])
def test_the_addresses_that_clients_are_given_answer(name: str, tmp_path: Path) -> None:
    found = (block for block in blocks(ROOT / "docs" / name) if block.language in ("json", "toml", "yaml"))
    urls = {url for block in found for url in LOCAL.findall(block.text)}
    assert urls
    with world(tmp_path) as here:
        for command in CLUSTER:
            here.start(command)
        for url in urls:
            if url.endswith("/v1"):
                here.run(f"curl -sf {url}/models")
            else:
                assert url.endswith("/mcp")
                here.run(f'curl -sf {url} -d \'{{"jsonrpc":"2.0","id":1,"method":"ping"}}\'')


@pytest.mark.parametrize("command", elsewhere())
def test_what_a_command_names_is_there(command: str) -> None:
    """For those that are not run here."""
    for path in re.findall(r"\bpackaging/\S+", command):
        assert (ROOT / path).is_file()
    for target in re.findall(r"^make ([a-z-]+)", command):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for profile in re.findall(r"--profile (\S+)", command):
        assert f"profiles: [{profile}]" in (ROOT / "compose.yaml").read_text()
    for name in re.findall(r"\b(?:--entrypoint |enable --now )(mentatd-[a-z]+)", command):
        assert f'{name} = "mentatd.cli' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    "block",
    [block for page in PAGES for block in blocks(page) if block.language in ("json", "toml")],
    ids=lambda block: f"{block.page.name}-{block.line}",
)
def test_what_is_to_be_copied_can_be_read(block: Block) -> None:
    if block.page.name == "wire.md":
        return  # shapes, with dots in place of what is left out
    json.loads(block.text) if block.language == "json" else tomllib.loads(block.text)
    if "[[engine]]" in block.text:
        assert read_file(block.text, parse("", "", OPTIONS, [], {}), hostname="node1", head_json="")


def test_nginx_takes_what_it_is_given(tmp_path: Path) -> None:
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin")
    if nginx is None:
        pytest.skip("needs nginx")
    (block,) = (block for block in blocks(ROOT / "docs/scaling-out.md") if block.language == "nginx")
    text = block.text.replace("listen 8080", f"listen 127.0.0.1:{free_port()}")
    conf = tmp_path / "nginx.conf"
    conf.write_text(f"pid {tmp_path}/pid;\nevents {{}}\nhttp {{\naccess_log off;\n{text}}}\n")
    done = subprocess.run(
        [nginx, "-t", "-e", "stderr", "-p", tmp_path, "-c", conf],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
