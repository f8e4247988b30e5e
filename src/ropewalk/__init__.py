"""Ropewalk: compose, check, run and serve tool chains for LLM agents."""
