"""The tools of a directory: modules in Python and JavaScript, and datasets, next to a definition."""
