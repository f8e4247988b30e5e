"""Wait for the answers to questions that an MCP server asks during a call of a durable run.

A question ends the call. It is recorded as a wait for an event below the call, `ask/question-1` for the first question
of the node `ask`, and the event has the name of that path. Once it is answered, the call is made again: with the
answers and the server's state where the server wants them back, and otherwise from the start. Then the server asks the
same questions again, and gets the recorded answers.
"""

from __future__ import annotations

from itertools import count
from typing import Any, Final

from ...errors import ExecutionFailed, NodeFailed, ToolError
from ...journal.past import load
from ...journal.sql.leases import boottime
from ...problems import join_problems
from ...tools.mcp.questions import QUESTIONS, CallQuestions, OpenQuestions, answer_problems, elicitation_result
from ...values import Json
from ..frame import RUN, Frame, NodeSlot, path_of
from .calls import Lease
from .durable import Send
from .waits import ROUND, receive

_MAX_QUESTIONS: Final = 10  # of one call: a server may ask something new each time
_ABOUT: Final = ("event", "question", "key", "digest", ROUND)


def asking(send: Send, node_slot: NodeSlot, lease: Lease | None) -> Send:
    """Wrap a call so that the run waits for the answers to the questions of the server."""

    async def send_and_ask(frame: Frame, args: Any) -> Json:
        record = _QuestionRecord(frame[RUN], node_slot, path_of(frame, node_slot))
        await record.restore()
        while True:
            if lease is not None and boottime() >= lease.until:
                await lease.renewed(frame[RUN].id)
            questions = record.questions_of_call()
            token = QUESTIONS.set(questions)
            try:
                return await send(frame, args)
            except ToolError:
                if questions.open is None:
                    raise
                unanswered = questions.open
            finally:
                QUESTIONS.reset(token)
            await record.ask(unanswered)

    return send_and_ask


class _QuestionRecord:
    """The questions of one call as the journal of its run holds them, and their answers."""

    # The first wait of a round, which is what the server asks at once, holds the whole round: what to ask, and what to
    # give back to the server with the answers.

    def __init__(self, run: Any, node_slot: NodeSlot, path: str) -> None:
        self._run, self._node_slot, self._path = run, node_slot, path
        self._answers: list[tuple[str, dict[str, Any]]] = []
        self._waits = 0  # with those whose answer did not fit
        self._round: dict[str, Any] | None = None
        self._results: dict[str, Any] = {}  # of the round, by the server's key

    def questions_of_call(self) -> CallQuestions:
        """Return what the next call needs to know of the questions of the calls before."""
        if self._round is None or self._round["responses"] is None:
            return CallQuestions(self._answers)
        return CallQuestions(self._answers, {**self._round["responses"], **self._results}, self._round["state"])

    async def restore(self) -> None:
        """Take over the questions that an earlier process has recorded, and wait for the answers that are missing."""
        past = self._run.log.past
        if not past:
            return
        for number in count(1):
            key = (self._wait_path(number), "wait")
            if type(past) is not dict:
                await load(past, key)
            entry = past.get(key)
            if entry is None:
                break
            about = {name: entry.data[name] for name in _ABOUT if name in entry.data}
            await self._receive(about, is_recorded=True)
        await self._ask_rest()

    async def ask(self, unanswered: OpenQuestions) -> None:
        """Record the questions that have ended a call, one after another, and wait for their answers."""
        if len(self._answers) + len(unanswered.questions) > _MAX_QUESTIONS:
            message = f"the server asks more than {_MAX_QUESTIONS} questions during one call"
            raise ExecutionFailed(self._node_slot.tool or "", "execute", message)
        run = self._run
        given = {"responses": unanswered.responses, "state": unanswered.state}
        if run.redact(given) != given:  # no record may hold a secret, so the server has to ask from the start again
            given = {"responses": None, "state": None}
        questions = {
            key: {"question": run.redact(question.to_json()), "digest": question.digest}
            for key, question in unanswered.questions.items()
        }
        self._round, self._results = {"questions": questions, **given}, {}
        await self._ask_rest()

    async def _ask_rest(self) -> None:
        """Ask what is not answered of the round."""
        if self._round is None:
            return
        for key, question in self._round["questions"].items():
            if key not in self._results:
                event = self._run.waits.prefix + self._wait_path(self._waits + 1)
                about = {"event": event, "key": key, **question}
                await self._receive(about if self._results else {**about, ROUND: self._round})

    async def _receive(self, about: dict[str, Any], is_recorded: bool = False) -> None:
        """Wait for the answer to one question, and keep it if it fits; a recorded question is then asked again."""
        if ROUND in about:
            self._round, self._results = about[ROUND], {}
        self._waits += 1
        path, limit = self._wait_path(self._waits), self._node_slot.node.policy.timeout
        value = await receive(self._run, self._node_slot, path, about, (lambda: limit) if limit else None, True)
        problems = answer_problems(about["question"], value, "answer")
        if problems and is_recorded:
            return
        if problems:  # it was sent without the check of the form
            message = f"the answer to a question does not fit: {join_problems(problems)}; a retry asks again"
            node_slot = self._node_slot
            raise NodeFailed(
                self._path, message, node=node_slot.name, tool=node_slot.tool, kind="InvalidInput", retryable=False
            )
        result = elicitation_result(about["question"], value)
        self._answers.append((about["digest"], result))
        self._results[about["key"]] = result

    def _wait_path(self, number: int) -> str:
        return f"{self._path}/question-{number}"
