"""Composite tools in Python: a builder of them, and tools with which an agent builds its own."""
