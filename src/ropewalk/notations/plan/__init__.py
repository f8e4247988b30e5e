"""Plans: ordinary Python, parsed and compiled to the graph, never executed."""
