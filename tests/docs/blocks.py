"""The fenced blocks of a page, and the commands in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

SERVICES = {"mentatd-serve": "serve_up", "mentatd-lite": "lite_up", "mentatd-register": "register_up"}
"""Commands that run until they are ended, each with the event by which it is up."""
_COMMANDS = re.compile(
    r"(\$ |\(|[A-Z_]+=\S* )*(mentatd-(serve|lite|register|demo)|curl|diff|docker|claude|gemini|make|openssl|pip|pipx"
    r"|python3?|sudo|ss|uv|export|/opt/mentatd/bin/\w+)\b"
)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block."""

    page: Path
    line: int
    """Where it begins in the page."""
    language: str
    """Empty where none is named."""
    text: str
    shown: str
    """The output that a block `text` right after it shows; empty where there is none."""


def blocks(page: Path) -> list[Block]:
    """All of a page's, in order."""
    text = page.read_text()
    found = list(_FENCE.finditer(text))
    return [
        Block(
            page,
            text[: match.start()].count("\n") + 1,
            match[1],
            match[2],
            following[2]
            if following and following[1] == "text" and not text[match.end() : following.start()].strip()
            else "",
        )
        for match, following in zip(found, [*found[1:], None], strict=False)
    ]


def commands(block: Block) -> list[str]:
    """The commands of a block, each on one line; a block without a language has some if its first line is one."""
    if block.language not in ("", "sh"):
        return []
    text = block.text.replace("\\\n", " ").replace("|\n", "| ")
    lines = [re.sub(r"\s+#\s.*$|^#.*$", "", line).strip() for line in text.splitlines()]
    lines = [line for line in lines if line]
    if block.language == "sh":
        return lines
    return [line for line in lines if _COMMANDS.match(line)]


def service(command: str) -> str:
    """Which service a command starts; empty where it ends by itself."""
    words = [word for word in command.split() if not re.fullmatch(r"[A-Z_]+=\S*", word)]
    return words[0] if words[0] in SERVICES and "--version" not in words and "--help" not in words else ""
