"""The notations: each a pure function from its document to a Flow. Adding one adds a line to NOTATIONS."""

from .notation import NOTATIONS, Compiled, Notation, notation_of, write

__all__ = ["NOTATIONS", "Compiled", "Notation", "notation_of", "write"]
