"""The notations: each a pure function from its document to a Flow. Adding one adds a line here."""

from . import chain_result as _chain_result
from . import composite as _composite
from . import composition_result as _composition_result
from . import experience_result as _experience_result
from . import flow as _flow
from .notation import NOTATIONS, Compiled, Notation, notation, notation_of, write

__all__ = ["NOTATIONS", "Compiled", "Notation", "notation", "notation_of", "write"]
del _chain_result, _composite, _composition_result, _experience_result, _flow
