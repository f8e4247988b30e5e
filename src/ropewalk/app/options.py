"""The options of `App.run` and `App.execute` by name, for type checkers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypedDict

from ..values import Json

if TYPE_CHECKING:
    from .start import Executor, OnEvent


class RunOptions(TypedDict, total=False):
    """The options of `App.run`, which documents them."""

    run_id: str | None
    variables: Mapping[str, Json] | None
    executor: Executor | None
    on_event: OnEvent
    request: str | None
    undo: Literal["on_request", "on_failure"] | None
    budget: Mapping[str, float] | None
    concurrency: int | None
    state: Mapping[str, Json] | None
    keep_state: bool
    park: bool


class ExecuteOptions(RunOptions, total=False):
    """The options of `App.execute`, which documents them."""

    definition_id: str | None
    input: Json
