"""Documents with places: YAML and JSON text in, plain JSON values out, every value findable.

`load` reads a file, a directory's `experience.yaml` or a text; `Document.locate` maps a path in
the document (`nodes[2].params.q`) to file, line and column; `attach` puts places on problems;
`render` prints one with its line and a caret; `dump` writes a document as text.

Refused, each with its place: repeated keys, tags, merge keys, more than one document in a file,
what is not JSON (NaN, integers past 64 bits, NUL), and whatever is past the `Limits`. YAML is
read by the core schema of YAML 1.2, so `on: yes` is two texts. Limits are checked on the event
stream, before anything is built.

To add a format, write a module with `read(text, limits) -> data` and `spots(text) -> Spot`, and
name it in `load.FORMS`.
"""
