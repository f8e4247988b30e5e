"""Plans: programs of people and of models, interpreted, with every awaited call recorded.

`boundary/` runs the programs that come from models in child processes.
"""
