"""The stores that compositions are tested on."""

from chains.conftest import address

__all__ = ["address"]
