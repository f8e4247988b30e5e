"""Input requests of a server during a call: the client of the call, this program or the run of the call answers them.

A server of the 2026-07-28 revision ends the call with its input requests, and the call is repeated with the answers. An
older server asks while the call is open. A run that waits for a person keeps no call open, so the question ends it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from .call_client import CallClient, ask_client, can_ask
from .questions import ELICIT, Elicitation, OpenQuestions, read_question
from .requests import Request, ServerRefused

if TYPE_CHECKING:
    from mcp import MCPError

    from .config import ServerConfig

_NOBODY: Final = "nobody answers here (on_elicit is not set)"
_LACKING: Final = {
    ELICIT: _NOBODY,
    "sampling/createMessage": "no model answers here (sampling is not set for this server)",
    "roots/list": "it has no directories (roots is not set for this server)",
}
"""Why there is no answer to a request of a server, by its method."""
_WAIT_REMEDY: Final = 'with questions = "wait" a run waits for the answer'


async def answer_input_requests(
    request: Request, result: Any, client: CallClient | None, server: str
) -> dict[str, Any] | None:
    """Answer the input requests of a call's result."""
    responses: dict[str, Any] = {}
    questions: dict[str, Elicitation] = {}
    for key, item in (result.input_requests or {}).items():
        data = item.model_dump(by_alias=True, mode="json", exclude_none=True)
        method, params = data["method"], data.get("params") or {}
        is_for_run = request.questions is not None and method == ELICIT
        if is_for_run and (client is None or not can_ask(client.capabilities, method, params)):
            question = read_question(server, params)
            recorded = request.questions.find_answer(question) if request.questions is not None else None
            if recorded is None:
                questions[key] = question
            else:
                responses[key] = recorded
        elif client is None:
            return None
        else:
            responses[key] = await ask_client(client, method, params)
    if not questions:
        return responses
    assert request.questions is not None
    request.questions.open = OpenQuestions(questions, responses, result.request_state)
    return None


def begins_again(request: Request, error: MCPError) -> bool:
    """Return True if a server refuses the state that it gave an earlier call, so that the call begins from the
    start."""

    # A server forgets the state when it starts again, or after some time, and has not executed the call then. The run
    # has its answers, so nobody is asked again.
    from mcp_types import INVALID_PARAMS

    questions = request.questions
    if error.error.code != INVALID_PARAMS or questions is None or questions.responses is None:
        return False
    questions.begin_again()
    return True


def call_of_run(requests: Iterable[Request]) -> Request | None:
    """Return the call that a question of an older server belongs to, if its run records questions."""
    calls = [request for request in requests if request.sent and request.tool]
    return calls[0] if len(calls) == 1 and calls[0].questions is not None else None


async def ask_run(request: Request, params: dict[str, Any], server: str) -> dict[str, Any]:
    """Return the answer that a run has recorded for a question of an older server, or end the call."""
    from mcp import MCPError
    from mcp_types import INVALID_REQUEST

    question, questions = read_question(server, params), request.questions
    assert questions is not None
    recorded = questions.find_answer(question)
    if recorded is not None:
        return recorded
    questions.open = OpenQuestions({"": question}, None, None)
    # Cancel first: a server that only hears of a refusal might do the work in another way.
    request.cancel()
    await request.over.wait()
    request.finish(ServerRefused(unanswered(request.tool, [question.message])))
    raise MCPError(INVALID_REQUEST, "the call has ended: it is made again once a person has answered")


def nobody_answers(config: ServerConfig, params: dict[str, Any]) -> MCPError:
    """Return what a question of an older server is answered with, where nobody can be asked."""
    from mcp import MCPError
    from mcp_types import INVALID_REQUEST

    message = read_question(config.name, params).message
    remedy = f"; {_WAIT_REMEDY}" if config.questions is None else ""
    return MCPError(INVALID_REQUEST, f"{_NOBODY}{remedy}: {message}")


def elicitation_remedy(message: str) -> str:
    """Return what to add to an error of a server that could not ask its question; "" for any other error."""
    # A server of the Python SDK that asks during the call cannot do so in the 2026-07-28 revision.
    if "elicitation/create" in message and "no back-channel" in message:
        return f'; with mode = "legacy" the server can ask, and {_WAIT_REMEDY}'
    return f"; {_NOBODY}" if "elicitation capability" in message else ""


def unanswered_requests(request: Request, result: Any) -> str:
    """Word the error for a result that asks for input, where nobody answers."""
    items = (result.input_requests or {}).values()
    data = [item.model_dump(by_alias=True, mode="json", exclude_none=True) for item in items]
    messages = [str((item.get("params") or {}).get("message") or item["method"]) for item in data]
    methods = dict.fromkeys(item["method"] for item in data)
    if request.questions is not None and len(methods) > 1:
        methods.pop(ELICIT, None)  # the run would wait for this answer
    return unanswered(request.tool, messages, ", ".join(_LACKING[method] for method in methods))


def unanswered(tool: str, questions: list[str], lacking: str = _NOBODY) -> str:
    """Word the error for a tool that asks for input, where nobody answers."""
    return f"tool {tool!r} asks for input, and {lacking}: {'; '.join(questions)}"
