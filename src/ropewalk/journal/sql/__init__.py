"""TODO journal/sql."""
