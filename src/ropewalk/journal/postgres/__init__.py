"""TODO journal/postgres."""
