"""A TOML file with several engines, to one `RegisterSettings` each.

    address = "10.0.0.1:6379"

    [[engine]]
    group = "qwen"
    openai = "8000/v1"
    provider = "vllm"

A key is the name of a flag. What stands above the engines holds for all of them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from mentatd.errors import SettingsError
from mentatd.register.settings import (
    ADDRESS,
    CONTAINER,
    DAEMON,
    GPUS,
    GROUP,
    MCP,
    NODE_IP,
    OPENAI,
    PROTO_OPTION,
    PROVIDER,
    RegisterSettings,
    read_settings,
)

MAX_ENGINES = 64
"""More than one machine runs; each is a connection of its own."""

_ENGINE = "engine"
_KEYS = {
    option.flag: option
    for option in (OPENAI, MCP, PROVIDER, GROUP, CONTAINER, NODE_IP, ADDRESS, PROTO_OPTION, GPUS)
}


def read_file(
    text: str, values: Mapping[str, str], *, hostname: str, head_json: str
) -> tuple[RegisterSettings, ...]:
    """The engines of a file; `values` are the texts of `OPTIONS`, over which the file goes.

    Raises SettingsError, which says which engine and which key is at fault.
    """
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsError(f"not TOML: {error}") from error
    tables = document.pop(_ENGINE, None)
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SettingsError("it has no [[engine]]")
    if not 0 < len(tables) <= MAX_ENGINES:
        raise SettingsError(f"it has {len(tables)} engines; there may be 1 to {MAX_ENGINES}")
    shared = _over(values, document)
    found: dict[tuple[str, str, str], int] = {}
    engines = []
    for number, table in enumerate(tables, 1):
        try:
            engine = read_settings(_over(shared, table), hostname=hostname, head_json=head_json)
        except SettingsError as error:
            raise SettingsError(f"engine {number}: {error}") from error
        same = found.setdefault((engine.group, engine.container, engine.node_ip), number)
        if same != number:
            raise SettingsError(
                f"engine {number}: it has the group and the container of engine {same}, and would take its place"
            )
        engines.append(engine)
    return tuple(engines)


def _over(values: Mapping[str, str], table: Mapping[str, Any]) -> Mapping[str, str]:
    """The texts with those of a table in their place."""
    told = dict(values)
    for key, value in table.items():
        option = _KEYS.get(key)
        if option is None:
            raise SettingsError(f"{key!r} is none of {', '.join(_KEYS)}")
        # not isinstance: True is an int
        if type(value) not in (str, int):
            raise SettingsError(f"{key}: expected a text or a whole number")
        told[option.name] = str(value).strip()
        if option == ADDRESS:
            told[DAEMON.name] = ""
    return told
