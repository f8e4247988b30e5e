"""The stores of runs and definitions; `protocol.py` has their protocols."""
