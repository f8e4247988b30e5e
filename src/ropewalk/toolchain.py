"""The documented functions of tool chains and compositions in snake_case, over a default app.

`execute_chain` and `execute_composition` are async, the others are plain functions. The default app is made at
the first call, with the store of the working directory then; `configure` sets another one.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .app import App
from .dialects.chain import ChainMode, ErrorStrategy, NodeType
from .dialects.composition import ComposerNodeType, TransformType
from .dialects.records import (
    ChainObject,
    ChainSummary,
    CompositionObject,
    CompositionResult,
    CompositionSummary,
    ExecutionDetails,
    ExecutionResult,
    ExecutionStatus,
)
from .select.options import SelectionStrategy
from .select.selector import SelectionResult, Selector
from .values import Json

if TYPE_CHECKING:
    from .select.documented import Intent
    from .tools.tool import Tool

__all__ = [
    "ChainMode",
    "ComposerNodeType",
    "ErrorStrategy",
    "NodeType",
    "SelectionStrategy",
    "TransformType",
    "clone_chain",
    "compose_tools",
    "configure",
    "create_chain",
    "create_composition",
    "create_transform_pipeline",
    "create_validation_chain",
    "default_app",
    "delete_chain",
    "delete_composition",
    "execute_chain",
    "execute_composition",
    "export_chain",
    "get_chain",
    "get_composition",
    "get_execution_details",
    "get_execution_status",
    "import_chain",
    "initialize_selector",
    "list_chains",
    "list_compositions",
    "list_executions",
    "select_tools",
    "stop_execution",
]

_lock = threading.Lock()
_app: App | None = None
_selector: Selector | None = None


def default_app() -> App:
    """The app behind the functions here; made from the working directory at the first call."""
    global _app
    with _lock:
        if _app is None:
            _app = App.open()
            atexit.register(_close)
        return _app


def configure(app: App) -> App:
    """Use `app` from now on; the one before is left to its owner. Tools are selected from its toolbox."""
    if not isinstance(app, App):
        raise TypeError(f"configure takes an App, not {type(app).__name__}: configure(App(store={app!r}))")
    global _app, _selector
    with _lock:
        _app, _selector = app, None
        return app


def _close() -> None:
    if _app is not None and _app._store is not None:
        _app._store.close()


def create_chain(config: Mapping[str, Any] | None = None, /, **more: Any) -> ChainObject:
    """Check and store a chain. Raises InvalidFlow, whose text and `.problems` hold every problem."""
    return default_app().chains.core.create_chain(config, **more)


async def execute_chain(
    chain_id: str,
    context: Mapping[str, Any] | None = None,
    tool_executor: Callable[[str, dict[str, Json]], Awaitable[Json]] | None = None,
) -> ExecutionResult:
    """Run a stored chain; an unknown one raises NotFound. `tool_executor` is
    `async (tool_name, params) -> result`; without it the app's toolbox is used."""
    return await default_app().chains.core.execute_chain(chain_id, context, tool_executor)


def get_chain(chain_id: str) -> ChainObject | None:
    """A stored chain, None when there is none with this id."""
    return default_app().chains.core.get_chain(chain_id)


def list_chains() -> list[ChainSummary]:
    """Every stored chain in a line each."""
    return default_app().chains.core.list_chains()


def delete_chain(chain_id: str) -> bool:
    """Forget a chain; False when there is none with this id."""
    return default_app().chains.core.delete_chain(chain_id)


def get_execution_status(execution_id: str) -> ExecutionStatus | None:
    """Where an execution is, None for an unknown id."""
    return default_app().chains.core.get_execution_status(execution_id)


def get_execution_details(execution_id: str) -> ExecutionDetails | None:
    """Everything recorded of an execution, None for an unknown id."""
    return default_app().chains.core.get_execution_details(execution_id)


def list_executions(chain_id: str | None = None, *, limit: int | None = None) -> list[ExecutionStatus]:
    """The executions of a chain, or of all chains, newest first; at most `limit`, without one all."""
    return default_app().chains.core.list_executions(chain_id, limit=limit)


def stop_execution(execution_id: str) -> bool:
    """Mark a running execution as stopped at once, also one of another process; else False."""
    return default_app().chains.core.stop_execution(execution_id)


def clone_chain(chain_id: str, overrides: Mapping[str, Any] | None = None, /, **more: Any) -> ChainObject:
    """A deep copy under a new id, with some properties replaced. An id that is taken is refused."""
    return default_app().chains.core.clone_chain(chain_id, overrides, **more)


def export_chain(chain_id: str) -> str:
    """A chain as JSON text."""
    return default_app().chains.core.export_chain(chain_id)


def import_chain(json: str | bytes | Mapping[str, Any]) -> ChainObject:
    """Store an exported chain under a new id."""
    return default_app().chains.core.import_chain(json)


# --- compositions ---------------------------------------------------------------------------------


def create_composition(config: Mapping[str, Any] | None = None, /, **more: Any) -> CompositionObject:
    """Check and store a composition. Raises InvalidFlow, whose text and `.problems` hold every problem."""
    return default_app().compositions.core.create(config, **more)


async def execute_composition(
    composition_id: str,
    input: Json = None,
    tool_executor: Callable[[str, dict[str, Json]], Awaitable[Json]] | None = None,
    *,
    variables: Mapping[str, Json] | None = None,
    execution_id: str | None = None,
) -> CompositionResult:
    """Run a stored composition; an unknown one raises NotFound. An input that does not fit its schema is
    a result without success, as everything that goes wrong in a node."""
    core = default_app().compositions.core
    return await core.execute_composition(
        composition_id, input, tool_executor, variables=variables, execution_id=execution_id
    )


def get_composition(composition_id: str) -> CompositionObject | None:
    """A stored composition, None when there is none with this id."""
    return default_app().compositions.core.get(composition_id)


def list_compositions() -> list[CompositionSummary]:
    """Every stored composition in a line each."""
    return default_app().compositions.core.list()


def delete_composition(composition_id: str) -> bool:
    """Forget a composition; False when there is none with this id."""
    return default_app().compositions.core.delete(composition_id)


def compose_tools(
    tool_names: Sequence[str], config: Mapping[str, Any] | None = None, /, **more: Any
) -> CompositionObject:
    """A composition that calls some tools one after another; mapping i of `mappings: [{input, output}]`
    belongs to tool i."""
    return default_app().compositions.core.compose_tools(tool_names, config, **more)


def create_validation_chain(
    validators: Sequence[Mapping[str, Any]], config: Mapping[str, Any] | None = None, /, **more: Any
) -> CompositionObject:
    """A composition of VALIDATE nodes, one for each `{schema, required}`."""
    return default_app().compositions.core.create_validation_chain(validators, config, **more)


def create_transform_pipeline(
    transforms: Sequence[Mapping[str, Any]], config: Mapping[str, Any] | None = None, /, **more: Any
) -> CompositionObject:
    """A composition of TRANSFORM nodes, one for each `{type, config}`."""
    return default_app().compositions.core.create_transform_pipeline(transforms, config, **more)


def initialize_selector(
    tools: Iterable[Mapping[str, Any] | Tool], *, intents: Mapping[str, Intent] | None = None
) -> None:
    """Have `select_tools` choose among these tools, `{name, description, category, inputSchema, ...}` each, instead of
    those of the default app's toolbox; `intents` is a table in place of `ropewalk.select.documented.INTENTS`. Raises
    InvalidTool for a wrong tool, and for two of one name."""
    global _selector
    made = Selector(tools, keeper=lambda: default_app().store, intents=intents)
    with _lock:
        _selector = made


def select_tools(query: str, options: Mapping[str, Any] | None = None, **more: Any) -> SelectionResult:
    """The tools that fit a request, best first. Options: strategy, maxResults, threshold, context {recentTools},
    excludeTools; also allowTools, category, namespace. Raises NoTools before there are any tools, InvalidInput with
    everything that is wrong with query and options."""
    return (_selector or default_app().selector).select(query, options, **more)
