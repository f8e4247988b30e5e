"""TODO tools/backends."""
