"""Every error this package raises on purpose. They carry data; the text is made from it.

RopewalkError
├── InvalidFlow          the definition is wrong: `.problems` holds every Problem found
│   └── UnresolvedReference      a `$` expression of a strict composite means nothing
├── ExpressionError      an expression cannot be read or evaluated: `.text .at .line .column`
├── InvalidValue         a value is not JSON or is past a limit: `.place`
│   ├── SchemaMismatch           it does not fit a schema: `.problems`
│   └── Unfinished               a run came to an end, and not to what it was for
├── UnsupportedSchema    a JSON Schema of another draft, or one that cannot be compiled
├── ConfigError          `ropewalk.toml` or a tool module is wrong
├── InvalidTool          a tool definition is wrong, or differs from the registered one
├── InvalidCursor        a page cursor is stale or garbled
├── ToolError            a tool call failed: `.tool_id .backend .op`, the cause chained
│   ├── InvalidToolId
│   ├── ToolNotFound
│   │   └── ToolNotApproved      it is not what was approved: `ropewalk tools pin` shows how
│   ├── NoBackends
│   ├── ValidationFailed         arguments: `.problems`
│   ├── ExecutionFailed
│   │   └── ToolTimeout          no answer in time: `.seconds`
│   ├── OutputValidationFailed   it ran, the result cannot be used: `.problems .result`
│   └── StreamNotSupported
├── NodeFailed           a node of a flow gave up: `.path .node .tool .attempts`
├── RunTimeout           a run took longer than it may
├── RunStopped           somebody stopped the run
├── RunBusy              another live process owns the run: `.owner`
├── RunEnded             nothing can be sent to a run that has ended: `.status`
├── NotWaiting           the run waits for nothing of this name: `.waits`
├── Rejected             somebody has not approved: `.by .note`
├── PartOfRun            a run that is part of another is not resumed by itself: `.parent`
├── NothingToRetry       an ended run has nothing that could be done again as asked
├── FlowFailed           a flow called as a tool did not reach its end: `.result`
├── ModelError           the model could not be asked, or did not come to an end: `.status .retryable`
├── CompletionFailed     a conversation has no result: `.run_id .completion`
├── NoExecutor           a run cannot go on without the tool executor it was started with
├── JournalConflict      the record of a run does not fit what the flow does now
│   ├── RunExists                an id is taken, by a run that was started otherwise
│   └── DefinitionChanged        it is to go on under another definition: `.problems` lists what differs
├── NotFound             no chain, run or the like has this id
└── StoreError           the store cannot be read or written
    └── Fenced           another process has taken the run over: `.run_id`

To add one: a class in the file of its kind, its name here, and where it is to have its own exit code or HTTP status a
line in the tables of those (`doors/cli/exits.py`, `doors/http/answers.py`).
"""

from .given import (
    ConfigError,
    ExpressionError,
    InvalidCursor,
    InvalidFlow,
    InvalidInput,
    InvalidValue,
    NotFound,
    Place,
    Problem,
    RopewalkError,
    SchemaMismatch,
    UnresolvedReference,
    UnsupportedSchema,
)
from .runs import (
    CompletionFailed,
    DefinitionChanged,
    Fenced,
    FlowFailed,
    JournalConflict,
    NodeFailed,
    NoExecutor,
    NothingToRetry,
    NotWaiting,
    PartOfRun,
    Rejected,
    RunBusy,
    RunEnded,
    RunExists,
    RunStopped,
    RunTimeout,
    StoreError,
    Unfinished,
)
from .tools import (
    ExecutionFailed,
    InvalidTool,
    InvalidToolId,
    ModelError,
    NoBackends,
    OutputValidationFailed,
    StreamNotSupported,
    ToolError,
    ToolNotApproved,
    ToolNotFound,
    ToolTimeout,
    ValidationFailed,
    wrap_error,
)

__all__ = [
    "CompletionFailed",
    "ConfigError",
    "DefinitionChanged",
    "ExecutionFailed",
    "ExpressionError",
    "Fenced",
    "FlowFailed",
    "InvalidCursor",
    "InvalidFlow",
    "InvalidInput",
    "InvalidTool",
    "InvalidToolId",
    "InvalidValue",
    "JournalConflict",
    "ModelError",
    "NoBackends",
    "NoExecutor",
    "NodeFailed",
    "NotFound",
    "NotWaiting",
    "NothingToRetry",
    "OutputValidationFailed",
    "PartOfRun",
    "Place",
    "Problem",
    "Rejected",
    "RopewalkError",
    "RunBusy",
    "RunEnded",
    "RunExists",
    "RunStopped",
    "RunTimeout",
    "SchemaMismatch",
    "StoreError",
    "StreamNotSupported",
    "ToolError",
    "ToolNotApproved",
    "ToolNotFound",
    "ToolTimeout",
    "Unfinished",
    "UnresolvedReference",
    "UnsupportedSchema",
    "ValidationFailed",
    "wrap_error",
]
