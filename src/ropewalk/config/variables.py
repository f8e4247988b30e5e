"""`${NAME}` and `${NAME:-default}` in a text of the configuration: what they mean, in one place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def fill(text: str, environ: Mapping[str, str], used: dict[str, str] | None = None) -> str:
    """`text` with each variable's value, once: what a value holds is not read again. As in a shell,
    the default also stands for an empty variable. What is taken from `environ` is put into
    `used`, by name. KeyError names a variable that is not set and has no default."""

    def read(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        if default is not None and not environ.get(name):
            return default
        value = environ[name]
        if used is not None:
            used[name] = value
        return value

    return _VARIABLE.sub(read, text)
