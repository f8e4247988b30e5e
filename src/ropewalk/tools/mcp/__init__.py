"""TODO tools/mcp."""
