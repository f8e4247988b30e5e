"""The command line: the script `ropewalk`, and `python -m ropewalk` where the script is not on the PATH."""

from __future__ import annotations

import faulthandler
import os
import sys
from contextlib import suppress


def main() -> int:
    """Run the command line of this process and return its exit code."""
    _print_stack_of_crash()
    try:  # Ctrl-C may come during the imports, too
        from .doors.cli.main import main as run
    except KeyboardInterrupt:
        from .doors.cli.streams import report_interruption

        return report_interruption()
    return run()


def _print_stack_of_crash() -> None:
    """Have a tool that crashes the process, as by a segmentation fault, leave its Python stack on standard error."""

    # Python itself takes any text in the variable for "yes", also "0".
    if os.environ.get("PYTHONFAULTHANDLER") == "0":
        faulthandler.disable()
    elif not faulthandler.is_enabled():
        with suppress(RuntimeError, OSError, ValueError):  # a process without standard error
            faulthandler.enable(all_threads=False)


if __name__ == "__main__":
    sys.exit(main())
