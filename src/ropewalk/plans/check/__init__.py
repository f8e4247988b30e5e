"""Checks before a run, on the syntax of a program: its outline, bounds of its calls, and its facts."""
