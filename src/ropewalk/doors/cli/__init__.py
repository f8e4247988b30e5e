"""TODO doors/cli."""
