"""The store in a SQLite file, the database under it, and the checks of damaged files."""
