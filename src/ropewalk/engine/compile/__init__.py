"""TODO engine/compile."""
