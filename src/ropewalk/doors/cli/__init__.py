"""The command line: a file for each group of commands, and the parts that they share. `main.py` is the way in."""
