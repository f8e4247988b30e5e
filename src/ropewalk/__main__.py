"""The command line: the script `ropewalk`, and `python -m ropewalk` where the script is not on the PATH."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line of this process and return its exit code."""
    try:  # Ctrl-C may come during the imports, too
        from .doors.cli.main import main as run
    except KeyboardInterrupt:
        from .doors.cli.streams import report_interruption

        return report_interruption()
    return run()


if __name__ == "__main__":
    sys.exit(main())
