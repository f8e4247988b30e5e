"""TODO tools/directory."""
