"""The documentation leads where it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("bench/*.md")])
LINK = re.compile(r"\]\((?!https?://)([^)#]*)(?:#([^)]*))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The names by which a heading can be linked to."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(page.read_text()))
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text()):
        there = page.parent / target if target else page
        assert there.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(there), f"{page.name} links to {target}#{anchor}"


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/*.md")), ids=lambda page: page.name)
def test_every_page_can_be_found(page: Path) -> None:
    others = [other.read_text() for other in PAGES if other != page]
    assert any(f"({page.name}" in text or f"(docs/{page.name}" in text for text in others)


def test_the_readmes_commands_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for command in re.findall(r"^make ([a-z-]+)", (ROOT / "README.md").read_text(), re.MULTILINE):
        assert re.search(rf"^{command}:", makefile, re.MULTILINE)


def test_the_rooms_of_the_design_are_there() -> None:
    text = (ROOT / "docs/design.md").read_text()
    room, seen = "", 0
    for line in text.partition("\nsrc/mentatd/\n")[2].partition("```")[0].splitlines():
        if indented := re.match(r"  (\w+)(/|\.py)", line):
            room = f"{indented[1]}/" if indented[2] == "/" else ""
        for name in re.findall(r"\w+\.py", line):
            assert (ROOT / "src/mentatd" / room / name).is_file(), f"{room}{name}"
            seen += 1
    assert seen > 50
