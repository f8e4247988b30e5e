"""TODO notations/composition."""
