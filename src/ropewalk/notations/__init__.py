"""The notations: each a pure function from its document to a Flow. Adding one adds a line to NOTATIONS."""
