"""TODO journal/sqlite."""
