"""The stores that compositions are tested on."""

from chains.conftest import address, file

__all__ = ["address", "file"]
