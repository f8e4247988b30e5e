"""The notations: each a pure function from its document to a Flow. Adding one adds a line to NOTATIONS."""

from .notation import NOTATIONS, Compiled, Notation, is_test, notation_of, write

__all__ = ["NOTATIONS", "Compiled", "Notation", "is_test", "notation_of", "write"]
