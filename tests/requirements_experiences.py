"""What the specification of experience graphs asks for; see requirements.py."""

from __future__ import annotations

EXPERIENCES = """
EXP-DOC-1       name, version, state and graph are required; description, phases and runtime are optional
EXP-DOC-2       version is N.N.N
EXP-DOC-3       phases are {id, title?}
EXP-DOC-4       a state field has a type of string, number, boolean, object, array, null; merge, default, description
EXP-DOC-5       type, merge and default of a field go together
EXP-DOC-6       unknown fields are problems, with what was probably meant
EXP-DOC-7       the JSON Schema ships, agrees with the reader, and is printed by `ropewalk schema experience`
EXP-DOC-8       errors carry file, line and column, a caret and a suggestion; all at once
EXP-NODE-1      fields that a kind needs, or has no use for
EXP-NODE-2      ids are [A-Za-z_][A-Za-z0-9_]* and unique
EXP-NODE-3      args are spread at the top level of what the tool gets
EXP-NODE-4      references in args are resolved recursively, also in arrays; unknown ones are problems
EXP-NODE-5      reads and writes name declared fields
EXP-NODE-6      a key outside writes is a warning
EXP-NODE-7      impl is inside the directory: .., absolute paths and links that leave it are refused; .ts too
EXP-NODE-8      $item and $index in args of a for_each
EXP-NODE-9      phase groups nodes in the progress display
EXP-TOOL-1      Python and JavaScript modules in one graph
EXP-TOOL-2      _state is a full snapshot; changing it does nothing
EXP-TOOL-3      _edge_inputs are the outputs of direct predecessors by id
EXP-TOOL-4      _item and _item_index in a for_each
EXP-TOOL-5      metrics are summed
EXP-TOOL-6      no callable, several candidates, a result without state_delta: a message that names file and node
EXP-STATE-1     a run starts from the declared defaults
EXP-STATE-2     undeclared fields are problems where they are read, too
EXP-STATE-5     null is allowed everywhere
EXP-STATE-6     a delta with an undeclared key fails the node: Node "n" wrote to undeclared state field "x"
EXP-STATE-7     a wrong type fails the node: declared as type string in state.schema
EXP-STATE-8     deltas apply whole or not at all
EXP-STATE-9     the state a node sees: the defaults and the writes of its ancestors
EXP-STATE-10    writes of parallel nodes and rounds fold in declared and item order, never in order of arrival
EXP-STATE-11    a field never written and without a default is absent from finalState
EXP-STATE-12    the final state of a failed run is what was folded before
EXP-STATE-13    --state FILE seeds the state
EXP-STATE-14    --keep-state carries the final state of the last run over
EXP-MERGE-1     last_wins is the default
EXP-MERGE-2     array_append concatenates; the write must be a list
EXP-MERGE-3     set_once: a second write fails; two writers that are not ordered are a problem
EXP-MERGE-4     object_merge, sum, max, min, union
EXP-ORDER-1     a node starts when its predecessors are done
EXP-ORDER-2     at most runtime.concurrency at once, 4 by default; the limit is reached
EXP-ORDER-3     no barriers
EXP-ORDER-4     a false `when` makes an edge dead
EXP-ORDER-5     a node all of whose edges are dead is skipped, and so on after it
EXP-ORDER-6     one live edge suffices
EXP-ORDER-7     after a node that failed under skip a node is skipped unless another live edge reaches it
EXP-ORDER-8     cycles are refused by name
EXP-EACH-1      for_each runs once per item
EXP-EACH-2      an empty or absent list: zero rounds, successors run
EXP-EACH-3      concurrency of rounds; the limit is reached
EXP-EACH-4      one failed round under skip does not stop the others; fail_run does
EXP-EACH-5      a round is retried by itself
EXP-EACH-6      successors get the outputs of the rounds as a list
EXP-EACH-7      for_each has a source
EXP-LOOP-1      a body of nodes that are connected among themselves, round after round
EXP-LOOP-2      until is checked before each round
EXP-LOOP-3      at most max_iters rounds, 100 by default
EXP-LOOP-4      edges name a loop by its id
EXP-LOOP-5      an edge that crosses a loop is refused
EXP-LOOP-6      a body holds nodes, each in one place
EXP-PIPE-1      each item runs through the stages in order
EXP-PIPE-2      items independently, no barrier between stages
EXP-PIPE-3      stages are ids or inline nodes
EXP-PIPE-4      an item that failed under skip goes no further
EXP-PIPE-5      edges name a pipeline by its id
EXP-PIPE-6      stages hold nodes, at least one
EXP-ERROR-1     fail_run is the default
EXP-ERROR-2     skip
EXP-ERROR-3     retry: attempts includes the first, 3 by default
EXP-ERROR-4     exhausted retries fail the run
EXP-ERROR-5     on_error is a word or an object, everything else is told
EXP-ERROR-6     the pause: base_ms (100) times the attempt when linear, times 2^(attempt-1) when exponential
EXP-STATUS-1    completed when nothing failed
EXP-STATUS-2    partial when something failed under skip
EXP-STATUS-3    failed
EXP-RUN-1       ropewalk run DIR runs a directory, with no key and no server, and prints finalState
EXP-RUN-2       exit codes: 0 completed or partial, 1 failed, 2 usage, 3 invalid
EXP-RUN-3       --input, alias --args, fills $input
EXP-RUN-4       events: run.started, node.ready|started|finished|failed|skipped, state.write, run.finished
EXP-RUN-5       runtime.env lets named environment variables through, as args._env and to JavaScript
EXP-RUN-6       validate, plan and graph of a directory run nothing of it
EXP-RUN-7       resume goes on after a crash: the same final state, no recorded call again
EXP-RUN-8       new DIR makes an experience that runs
EXP-RUN-9       --watch tells every event; --concurrency limits a run
EXP-KIND-1      dataset: file, sqlite, http, mcp-resource; exactly one write
EXP-KIND-2      call: any tool of the app; output is a path into its result
EXP-KIND-3      experience: another directory inside this one, isolated; its final state
EXP-KIND-4      wait: an event or an approval; the payload to edge_output and to the one field in writes
EXP-KIND-5      agent: a model with tools; its text or JSON to the one field; no other tool is called
EXP-KIND-6      wait: a timeout that is over fails the node under its on_error, as does a refusal that nothing reads
"""
