"""Python statements evaluated as data: an `ast` compiled to closures with a budget, never `exec` or `eval`."""
