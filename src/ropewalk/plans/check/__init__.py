"""What a program can do, read from its syntax before it runs: its outline, bounds of its calls, and its facts."""
