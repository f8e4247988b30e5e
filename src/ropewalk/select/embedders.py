"""The embedding models that a project can name: `none`, `minilm`, `multilingual`, or a class of its own.

To add a model of a package, add its name to EMBEDDERS in `config/settings.py` and its class here. This module must not
import numpy: `[selector] model` is read without the extra `select`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..config.modules import Setting, import_error, import_object, setting_error
from ..config.settings import EMBEDDERS, NO_EMBEDDER, Config, is_embedder_name
from ..errors import ConfigError
from ..values import did_you_mean

if TYPE_CHECKING:
    from .embedding import Embedder

_SETTING: Final[Setting] = ("selector", "model")


def check_name(name: str) -> str | None:
    """Return the name of a model, or None for no model."""
    if not is_embedder_name(name):
        suggestion = did_you_mean(name, EMBEDDERS)
        hint = f"; did you mean {suggestion}?" if suggestion else ""
        raise ConfigError(f"{name!r} is not an embedding model; use {', '.join(EMBEDDERS)} or MODULE:CLASS{hint}")
    return None if name == NO_EMBEDDER else name


def open_embedder(name: str, config: Config | None = None) -> Embedder:
    """Open a model by its name; the module of a class is searched for in the directory of the configuration, too."""
    config = config or Config(directory=Path.cwd())
    if name != config.selector_model:
        config = replace(config, file=None)  # the file does not set it, so no message has its line
    if name in EMBEDDERS:
        try:
            return _open_packaged(name)
        except ConfigError as error:
            raise setting_error(f'"{name}": {error}', config, _SETTING) from error
    create = import_object(name, config, _SETTING)
    try:
        model: Embedder = create()
    except Exception as error:  # code of the project can raise anything
        raise import_error(f"{name}()", error, config, _SETTING) from error
    return model


@cache
def _open_packaged(name: str) -> Embedder:
    """Open a model of a package; one serves all selectors of the process."""
    from .embedding import MiniLM, Multilingual

    return MiniLM() if name == "minilm" else Multilingual()
