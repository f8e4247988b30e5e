"""What the specification asks for, one line per sentence, each with an id that a test or case carries.

A case names its ids in `covers:`, a Python test in its docstring. `test_requirements.py` holds the
two against each other. An id is never used again for something else.
"""

from __future__ import annotations

from requirements_experiences import EXPERIENCES
from requirements_selection import SELECTION

CHAINS = """
CHAIN-FN-1      twelve documented functions in snake_case over a default app; app.chains has the same as methods
CHAIN-FN-2      in ropewalk.toolchain execute_chain is async and the others are plain functions
CHAIN-FN-3      app.chains is async throughout
CHAIN-FN-4      the plain functions read their own writes, on memory and on SQLite
CHAIN-FN-5      stop_execution only signals: it never waits for the cancellation
CHAIN-FN-6      the default app is made at the first call, from the working directory then
CHAIN-FN-7      the default app works across successive event loops
CHAIN-FN-8      ChainMode, ErrorStrategy and NodeType are exported enums; their string values are accepted everywhere
CHAIN-FN-9      records: attributes in snake_case, items in camelCase, to_dict() in the documented spelling
CHAIN-FN-10     chains and executions are stored and survive a restart
CHAIN-CONFIG-1  id is a UUID when absent
CHAIN-CONFIG-2  defaults: errorStrategy stop, maxRetries 3, retryDelay 1000, no timeout, variables {}
CHAIN-CONFIG-3  our defaults: concurrency 8, maxIterations 10; until and inputSchema are optional
CHAIN-CONFIG-4  timeout is of the whole execution and counts only time spent executing
CHAIN-CONFIG-5  keys are accepted in camelCase and in snake_case and kept in camelCase
CHAIN-CONFIG-6  the config belongs to the caller: changing it later changes nothing here
CHAIN-BAD-1     InvalidFlow holds all problems together, in its text and in .problems, each with its place
CHAIN-BAD-2     no id or no type
CHAIN-BAD-3     unknown type, mode or strategy, with a suggestion
CHAIN-BAD-4     tool node without tool
CHAIN-BAD-5     repeated ids, also in nested nodes
CHAIN-BAD-6     unknown names in dependsOn, onSuccess, onError
CHAIN-BAD-7     cycles, named
CHAIN-BAD-8     bad expressions
CHAIN-BAD-9     negative numbers
CHAIN-BAD-10    unknown keys, with "did you mean"
CHAIN-BAD-11    values that are no JSON
CHAIN-STORE-1   list_chains gives id, name, description, mode, nodeCount, runCount, created
CHAIN-STORE-2   clone_chain deep-copies with a new id; overrides replace properties
CHAIN-STORE-3   export_chain gives JSON that import_chain reads back under a new id
CHAIN-STORE-4   export . import is the identity but for id and dates
CHAIN-STORE-5   get_* of an unknown id is None, delete_chain False
CHAIN-TYPE-1    TOOL: references in params are resolved, the output is the tool's result
CHAIN-TYPE-2    CONDITION: the boolean, or the chosen branch's last output
CHAIN-TYPE-3    LOOP over items: one round per element, concurrency, list of round outputs
CHAIN-TYPE-4    LOOP with until or while, at most maxIterations rounds
CHAIN-TYPE-5    PARALLEL: all its nodes, at most concurrency at once, {nodeId: output}
CHAIN-TYPE-6    TRANSFORM: the transformed value of input
CHAIN-TYPE-7    DELAY: null after the time; a restart waits only what is left
CHAIN-TYPE-8    WAIT: the event's payload, or {approved, by, note}
CHAIN-TYPE-10   WAIT: a refusal is an answer where `approved` is read, else it fails the node, whatever its maxRetries
CHAIN-TYPE-11   WAIT: a timeout that is over fails the node as any timeout
CHAIN-TYPE-9    types, modes and strategies are accepted in any letter case
CHAIN-NODE-1    outputVar sets $var.NAME
CHAIN-NODE-2    a false condition skips the node, output null, in every mode
CHAIN-NODE-3    on a CONDITION node the condition chooses the branch and never skips
CHAIN-NODE-4    without a chosen branch the output is the boolean
CHAIN-NODE-5    $prev is the last node that ran
CHAIN-NODE-6    sequential and conditional: onSuccess and onError go to a later node, skipping those between
CHAIN-NODE-7    an onError jump handles the failure
CHAIN-NODE-8    dag: the nodes named by onSuccess and onError run only on that outcome and depend on the node
CHAIN-NODE-9    parallel and loop mode refuse jumps at top level
CHAIN-NODE-10   onError wins over the strategy once retries are spent
CHAIN-NODE-11   a failure handled by onError is not in errors
CHAIN-MODE-1    SEQUENTIAL: in order
CHAIN-MODE-2    CONDITIONAL: the same, each node guarded by its condition
CHAIN-MODE-3    PARALLEL: all at once, at most concurrency running; the limit is reached
CHAIN-MODE-4    LOOP: all nodes in order, up to maxIterations
CHAIN-MODE-5    LOOP: $iteration and $var.iteration count from 0
CHAIN-MODE-6    LOOP: until is checked after each round
CHAIN-MODE-7    DAG: a node starts when all in dependsOn are done
CHAIN-MODE-8    DAG: at most concurrency running; the limit is reached
CHAIN-MODE-9    DAG: no barrier between levels
CHAIN-MODE-10   DAG: a dependency skipped by its own condition does not block
CHAIN-MODE-11   DAG: a failed dependency skips its dependents under continue, and theirs in turn
CHAIN-MODE-12   of two parallel writers of a variable the later in declared order wins, whatever finished first
CHAIN-ERROR-1   STOP: halt, running siblings are cancelled, failed
CHAIN-ERROR-2   CONTINUE: into errors, output null, go on, partial
CHAIN-ERROR-3   RETRY: up to maxRetries more tries, retryDelay apart
CHAIN-ERROR-4   RETRY: then as STOP; attempts are counted
CHAIN-ERROR-5   FALLBACK: the fallback value, references resolved, $error available
CHAIN-ERROR-6   FALLBACK without a value is as STOP
CHAIN-ERROR-7   SKIP: go on silently, output null, not in errors, completed
CHAIN-ERROR-8   a node's own errorStrategy, maxRetries and retryDelay win
CHAIN-ERROR-9   timeout of the chain: status timeout, tools cancelled, what finished is kept
CHAIN-EXEC-1    the result: success, executionId, chainId, status, results, variables, errors, duration
CHAIN-EXEC-2    an error: nodeId, path, tool, message, kind, attempts
CHAIN-EXEC-3    success is status == completed
CHAIN-EXEC-4    an unknown chain raises NotFound
CHAIN-EXEC-5    get_execution_status: id, chainId, status, startTime, endTime, currentNode, resultCount, errorCount
CHAIN-EXEC-6    get_execution_details adds every result, attempt and event
CHAIN-EXEC-7    list_executions of a chain
CHAIN-EXEC-8    stop_execution marks a running execution stopped at once, cancels what is in flight, gives True
CHAIN-EXEC-9    stop_execution of anything else gives False
CHAIN-EXEC-10   tool_executor is async (tool_name, params) -> result; without it the app's toolbox is used
CHAIN-EXEC-11   a tool that no toolbox knows is no problem at creation, but is at execution without an executor
CHAIN-EXEC-12   a run with an executor of its own resumes only where it is given again
CHAIN-EXEC-13   context.variables override the chain's
CHAIN-EXEC-14   context.input is $input, checked by inputSchema
CHAIN-EXEC-15   the same executionId twice runs once and gives the first result
CHAIN-EXEC-16   results has the top-level nodes; in LOOP mode those of the last round, the rounds are in the details
CHAIN-EXEC-17   a reference to a parallel sibling's output is a problem at check
"""

COMPOSITIONS = """
COMP-FN-1       eight documented functions in snake_case over a default app; app.compositions has the same as coroutines
COMP-FN-2       in ropewalk.toolchain execute_composition is async and the others are plain functions
COMP-FN-3       list_compositions gives id, name, description, nodeCount, runCount, created
COMP-FN-4       get_composition of an unknown id is None, delete_composition False, execute_composition NotFound
COMP-FN-5       compositions are stored and survive a restart
COMP-FN-6       ComposerNodeType and TransformType are exported enums; their string values are accepted everywhere
COMP-FN-7       compose_tools makes a sequential composition; mapping i belongs to tool i
COMP-FN-8       create_validation_chain makes a VALIDATE node of each {schema, required}
COMP-FN-9       create_transform_pipeline makes a TRANSFORM node of each {type, config}
COMP-CONFIG-1   id is a UUID when absent; name, description, variables have defaults
COMP-CONFIG-2   keys are accepted in camelCase and in snake_case and kept in camelCase
COMP-CONFIG-3   the notation is told by kind or by its shape, and chains stay chains
COMP-RUN-1      the input is validated before anything runs
COMP-RUN-2      data passes through the nodes in order, each output the next one's data
COMP-RUN-3      the output is validated at the end
COMP-RUN-4      the result: success, executionId, compositionId, data, executionPath, nodeCount
COMP-RUN-5      a failure: success false, executionId, compositionId, error, errors, failedNode, executionPath
COMP-RUN-6      errors are {path, message, keyword}
COMP-RUN-7      executionPath lists the ids of the nodes that ran
COMP-RUN-8      schemas are all of JSON Schema 2020-12
COMP-RUN-9      a run resumes after a crash: what is recorded is not called again
COMP-RUN-10     tool_executor is async (tool_name, params) -> result; without it the app's toolbox is used
COMP-NODE-1     inputMapping is a reference, or an object or list of references and literals
COMP-NODE-2     without inputMapping the data is used as it is; an object becomes the tool's arguments
COMP-NODE-3     outputMapping is over the node's own output and all other roots
COMP-NODE-4     without outputMapping the output is unchanged
COMP-NODE-5     each node's output is kept for $output.nodeId
COMP-NODE-6     $input is the composition's input throughout
COMP-NODE-7     $var.name is a variable
COMP-NODE-8     onError stop is the default
COMP-NODE-9     onError fallback uses fallback
COMP-NODE-10    onError continue: the data passes on unchanged, the error is recorded
COMP-TYPE-1     TOOL calls its tool
COMP-TYPE-2     MAP, FILTER, REDUCE over items or the data, with an expression over $item and $index
COMP-TYPE-3     REDUCE has $acc and initial
COMP-TYPE-4     MAP, FILTER, REDUCE with a tool that is called per item
COMP-TYPE-5     concurrency of the calls per item
COMP-TYPE-6     TRANSFORM: {type, config}, or transformType and config
COMP-TYPE-7     VALIDATE: fails with every problem, and gives on what fits
COMP-TYPE-8     VALIDATE with required false: a failure is recorded and the data passes on
COMP-TYPE-9     BRANCH: the first branch that matches runs, otherwise if none
COMP-TYPE-10    MERGE: object (shallow, later wins), deep, concat, zip
COMP-TYPE-11    CONDITIONAL: then or otherwise, each a node, a list of nodes, or a value
COMP-TRANS-1    MAP, FILTER, FLAT_MAP with expression
COMP-TRANS-2    REDUCE with expression, $acc and initial
COMP-TRANS-3    GROUP_BY by path or expression, in order of first sight
COMP-TRANS-4    SORT by path, expression or a list of them; asc and desc; stable; mixed types ordered
COMP-TRANS-5    PICK and OMIT with fields, of an object or of each object of a list
COMP-TRANS-6    MERGE with a value or a reference, deep or not
COMP-TRANS-7    RENAME
COMP-TRANS-8    CUSTOM: a function registered with @transform; an unknown one is a problem at check
COMP-BAD-1      every problem at once, each with its place
COMP-BAD-2      fields that a type needs, or has no use for
COMP-BAD-3      unknown words, keys, references and transforms, with a suggestion
COMP-BAD-4      hostile input (YAML bombs, deep nesting, patterns that hang) is refused or done in under a second
"""

REFERENCES = """
REF-1   a string that begins with $ is a reference, any other without ${ a literal
REF-2   ${...} is interpolated; alone it keeps the value's type; $${ is a literal ${
REF-3   $$text is the literal $text
REF-4   $5 and $typo.x are text with a warning; with strict they are problems at check
REF-5   references are resolved in objects and lists, to any depth
REF-6   tool output is never read as a reference
REF-7   $input and paths into it
REF-8   $prev, null in the first
REF-9   $steps[0] by true position, with or without .output
REF-10  $steps.NAME and $output.NODE
REF-11  $var.name
REF-12  $item, $index, $iteration inside loops
REF-13  $error inside a fallback
REF-14  $secret.NAME is read at call time; never journaled, logged or shown
REF-15  paths: .name, .0 and [0], ["any key"]
REF-16  a path that does not exist gives missing, which becomes null in a result
REF-17  in conditions the $ of a root may be left out
"""

DURABILITY = """
DUR-1   a step recorded as done never runs again
DUR-2   resume goes on from what is recorded after a crash
DUR-3   stop reaches a run of another process within half a second
DUR-4   delays survive a restart and wait only what is left
DUR-5   duplicate start with the same id runs once
DUR-6   10,000 nodes and nesting 64, each with a clear error
DUR-7   failed attempts are recorded: a resumed run does not begin its tries anew
DUR-8   the same answer on every store
DUR-9   waits for an event or an approval survive a restart and wait only what is left
DUR-10  each signal is taken once, in order of sending, by the first wait for its name
DUR-11  a run that only waits is released, and goes on when a signal comes or its time is due; none is lost
DUR-12  the same signal id is sent once
DUR-13  waiting does not count toward the timeout of a run
"""

COMPOSITES = """
COMPOSITE-BUILD-1   ComposableToolBuilder(execute_tool, strict_mode=False); build gives a Tool; its spec: mode, steps
COMPOSITE-BUILD-2   every call goes through execute_tool, with the outer context unchanged
COMPOSITE-BUILD-3   a step whose result has success false ends the pipeline
COMPOSITE-BUILD-4   the tool: id <name> or composable:<name>, name, display_name, description, input_schema, effects
COMPOSITE-REF-1     the references are $input, $prev, $steps; nested objects and lists are resolved, all else literal
COMPOSITE-REF-2     a missing path gives null; $prev is null in the first step
COMPOSITE-REF-3     not strict: an unrecognised $ expression is the literal text and a warning on ropewalk.composite
COMPOSITE-REF-4     strict: build raises UnresolvedReference with the documented message before any step runs
COMPOSITE-REF-5     a reference to an unknown step or a later one is unresolved
COMPOSITE-REF-6     $steps[N] is a true position: equal names shift nothing
COMPOSITE-VALID-1   validate: steps must be a non-empty array
COMPOSITE-VALID-2   validate: every step has a tool; white space is none
COMPOSITE-VALID-3   one message per failing check; errors is None when valid
COMPOSITE-FAIL-1    a failed step: success False, error 'Step "<name>" (tool: "<tool>") failed: <error>'
COMPOSITE-FAIL-2    an executor that raises is converted the same way
COMPOSITE-FAIL-3    what finished stays available in details
COMPOSITE-COND-1    a false condition skips the step, and $prev stays
COMPOSITE-INPUT-1   input is validated first: a clear error, nothing called
COMPOSITE-TOOL-1    it registers in a Toolbox and runs inside chains
COMPOSITE-TOOL-2    it runs on the engine: journaled and resumed
COMPOSITE-TOOL-3    it is cancelled with whoever calls it
COMPOSITE-TOOL-4    output_schema is inferred from the last tool's where known
COMPOSITE-TOOL-5    composites can contain composites; cycles are refused by name
COMPOSITE-FLOW-1    create_workflow, run_workflow, list_workflows: an agent makes, runs and lists its own composites
COMPOSITE-FLOW-2    only allowed tools, no recursion, at most max_steps
COMPOSITE-FLOW-3    a session sees no workflow of another
COMPOSITE-DOC-1     a document of kind composite is run, validated, planned and drawn like any other
"""

MODULES = """
MODULE-1    the tool is run, main or the only public function of a Python file; file.py:function names one
MODULE-2    async def runs in the loop, def in a thread
MODULE-3    no callable, several, a result that is no object or has no state_delta: the error names file and node
MODULE-4    edge_output is any JSON, metrics are numbers
MODULE-5    args, _state, _edge_inputs, _item and _item_index arrive; changing them does nothing to anybody else
MODULE-6    a large state costs nothing before it is reached, and is sent once to a Node.js process
MODULE-7    .. and absolute paths, links that lead out, missing files and .ts are refused at check
MODULE-8    paths are looked at again when a module runs
MODULE-9    checking imports and runs nothing
MODULE-10   modules find each other; directories with files of the same names do not meet; sys.path stays
MODULE-11   a module that has changed is imported anew
MODULE-12   JavaScript modules follow the source's contract: the default export of .mjs, .js and CommonJS
MODULE-13   one warm process per run, which ends with the run however it ends
MODULE-14   the process gets an allow-listed environment, what runtime.env names, and no open file
MODULE-15   what is printed is kept as log lines and never taken for an answer
MODULE-16   an endless loop is killed at its time; other calls are told; the next call has a new process
MODULE-17   kill -9 in mid-call is told, the next call works, nothing is left over, also when we are killed
MODULE-18   NaN, undefined, BigInt, functions and cycles are refused with file and place; 50 MB arrive
MODULE-19   failures name file and place; things thrown that are no errors, rejections, process.exit are told
MODULE-20   where Node.js is missing or too old, the error says what to install
DATASET-1   CSV, JSON and JSON lines; CSV values stay strings; what is wrong is told with its line
DATASET-2   SQLite files are read by one query that does nothing but read
DATASET-3   http gives rows within the limits of the client
DATASET-4   mcp-resource gives what the server's resource holds
DATASET-5   only files inside the directory, within the limit of size
"""

ALL = (CHAINS, COMPOSITIONS, REFERENCES, DURABILITY, COMPOSITES, MODULES, EXPERIENCES, SELECTION)
REQUIREMENTS: dict[str, str] = {
    (words := line.split(maxsplit=1))[0]: words[1] for part in ALL for line in part.split("\n") if line
}
