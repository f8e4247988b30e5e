"""`completion`: a script that completes commands and options in a shell."""

from __future__ import annotations

from typing import Literal

from .answer import Answer


def completion(shell: Literal["bash", "zsh", "fish"], /) -> Answer:
    """Print a completion script: `ropewalk completion bash > ~/.local/share/bash-completion/completions/ropewalk`."""
    from .commands import program

    return Answer(text=program().generate_completion(prog_name="ropewalk", shell=shell))
