"""TODO notations/chain."""
