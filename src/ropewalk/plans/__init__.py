"""Plans: programs in Python that are interpreted, and whose awaited calls are recorded.

`messages.py` holds the messages between the machine that interprets a program and its host. `boundary/` runs the
programs that come from models in child processes.
"""
