"""What the demonstration's engines say, and how they count it: a token is a word with the space before it."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping

_TOKEN = re.compile(r"\s*\S+|\s+$")

_VERSES = """\
Three engines hum behind a door,
the router knows which is for you;
it keeps no list, it asks once more
who answers now, and that is true.

One falls asleep, its neighbours sing,
a cable drops, the words still flow;
you name a model, nothing else,
and never need to know
on which machine, at which address,
the tokens came to be:
a name is all that you possess,
the rest is port 6381, and me."""

_FLICKER = (
    "You caught me while I am up. In a moment my process is stopped, as if somebody had tripped over its"
    " cable, and a moment later it is started again. Watch the status page: my row goes dim with the reason,"
    " the other models do not notice, and as soon as I answer a probe I am back in the route table."
)


def tokenize(text: str) -> tuple[str, ...]:
    """The tokens of a text; joined they are the text again."""
    return tuple(_TOKEN.findall(text))


def token_id(token: str) -> int:
    """A number that stands for the token, the same each time."""
    return zlib.crc32(token.encode("utf-8", "replace")) & 0xFFFF


def reply(model: str, said: str) -> tuple[str, ...]:
    """The tokens that `model` answers to what was said to it.

    `poet` recites, `flicker` explains itself, and any other model repeats what it hears.
    """
    texts: Mapping[str, str] = {"poet": _VERSES, "flicker": _FLICKER}
    return tokenize(texts.get(model) or f"You said: {said.strip() or 'nothing at all'}")
