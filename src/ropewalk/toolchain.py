"""The documented functions of tool chains and compositions in snake_case, over a default app.

`execute_chain` and `execute_composition` are async, the others are plain functions. The default app is made at
the first call, with the store of the working directory then; `configure` sets another one.
"""

from __future__ import annotations

import atexit
import inspect
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from .app.app import App
from .app.chains import ChainService
from .app.compositions import CompositionService
from .notations.chain.read import ChainMode, ErrorStrategy
from .notations.node_types import NodeType, TransformType
from .select.options import SelectionStrategy
from .select.selector import SelectionResult, Selector

if TYPE_CHECKING:
    from .select.legacy import Intent
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

ComposerNodeType = NodeType
"""The types of nodes in compositions, which are those in chains."""

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
_lock = threading.Lock()
_app: App | None = None
_selector: Selector | None = None


def default_app() -> App:
    """Return the default app. The first call opens the project of the working directory.

    Returns:
        The app that the functions of this module use.
    """
    global _app
    with _lock:
        if _app is None:
            _app = App.open()
            atexit.register(_close)
        return _app


def configure(app: App) -> App:
    """Set the default app. `select_tools` then ranks the tools of its toolbox.

    Args:
        app: The app to use. The previous one is not closed.

    Returns:
        The same app.

    Raises:
        TypeError: The argument is not an App.
    """
    if not isinstance(app, App):
        raise TypeError(f"configure takes an App, not {type(app).__name__}: configure(App(store={app!r}))")
    global _app, _selector
    with _lock:
        _app, _selector = app, None
        return app


def _close() -> None:
    if _app is not None:
        _app.context.close_store()


class _Forwards(Generic[S]):
    """Makes plain functions from the methods of a service."""

    # Each call goes to the service of the default app.

    def __init__(self, service: Callable[[App], S]) -> None:
        self.service = service

    def __call__(self, method: Callable[Concatenate[S, P], T]) -> Callable[P, T]:
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return method(self.service(default_app()), *args, **kwargs)

        async def execute(*args: P.args, **kwargs: P.kwargs) -> Any:
            result: Any = call(*args, **kwargs)
            return await result

        function: Any = wraps(method)(execute if inspect.iscoroutinefunction(method) else call)
        signature = inspect.signature(method)
        function.__signature__ = signature.replace(parameters=[*signature.parameters.values()][1:])
        function.__module__, function.__qualname__ = __name__, method.__name__
        return function  # type: ignore[no-any-return]


_chains = _Forwards(lambda app: app.chains.core)
create_chain = _chains(ChainService.create_chain)
execute_chain = _chains(ChainService.execute_chain)
get_chain = _chains(ChainService.get_chain)
list_chains = _chains(ChainService.list_chains)
delete_chain = _chains(ChainService.delete_chain)
clone_chain = _chains(ChainService.clone_chain)
export_chain = _chains(ChainService.export_chain)
import_chain = _chains(ChainService.import_chain)
get_execution_status = _chains(ChainService.get_execution_status)
get_execution_details = _chains(ChainService.get_execution_details)
list_executions = _chains(ChainService.list_executions)
stop_execution = _chains(ChainService.stop_execution)

_compositions = _Forwards(lambda app: app.compositions.core)
create_composition = _compositions(CompositionService.create_composition)
execute_composition = _compositions(CompositionService.execute_composition)
get_composition = _compositions(CompositionService.get_composition)
list_compositions = _compositions(CompositionService.list_compositions)
delete_composition = _compositions(CompositionService.delete_composition)
compose_tools = _compositions(CompositionService.compose_tools)
create_validation_chain = _compositions(CompositionService.create_validation_chain)
create_transform_pipeline = _compositions(CompositionService.create_transform_pipeline)


def initialize_selector(
    tools: Iterable[Mapping[str, Any] | Tool], *, intents: Mapping[str, Intent] | None = None
) -> None:
    """Set the tools that `select_tools` ranks, in place of those of the default app's toolbox.

    Args:
        tools: Tools, or objects with `name`, `description`, `category`, `inputSchema` and more.
        intents: Table of intents to use in place of the built-in one.

    Raises:
        InvalidTool: A tool is wrong, or two have the same name.
    """
    global _selector
    selector = default_app().context.selection.new(tools, keeper=lambda: default_app().store, intents=intents)
    with _lock:
        _selector = selector


def select_tools(query: str, options: Mapping[str, Any] | None = None, **more: Any) -> SelectionResult:
    """Rank the tools for a request.

    Args:
        query: The request, in words.
        options: `strategy`, `maxResults`, `threshold` (0 to 1), `context` with `recentTools`, `excludeTools`,
            `allowTools`, `category` and `namespace`.
        more: Further such options, which win over those of `options`.

    Returns:
        The results, best first, each with a score from 0 to 1.

    Raises:
        NoTools: There are no tools to choose from.
        InvalidInput: The query or an option is wrong; with every problem.
    """
    return (_selector or default_app().selector).select(query, options, **more)
