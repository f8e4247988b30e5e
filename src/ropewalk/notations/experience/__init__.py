"""TODO notations/experience."""
