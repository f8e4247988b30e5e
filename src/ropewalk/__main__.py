"""`python -m ropewalk`: the command line, for where the `ropewalk` script is not on the PATH."""

from __future__ import annotations

import sys

from .doors.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
