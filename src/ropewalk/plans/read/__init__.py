"""The text of a program as a syntax tree: its grammar, its size and depth, its names, and what it may not contain."""
