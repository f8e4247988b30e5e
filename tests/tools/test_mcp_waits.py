"""Questions of MCP servers that nobody can answer at once: the run waits, and continues with the answer later."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ropewalk import App, Toolbox, flow
from ropewalk.errors import ConfigError, InvalidInput, NotWaiting
from ropewalk.tools.mcp.servers import McpServers

from .mcp_lab import SERVERS, HttpServer, forked, free_port, python

pytestmark = pytest.mark.process

LINES = ("http-2026-07-28", "http-legacy", "stdio-legacy")
ERAS = LINES[:2]


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    port, ledger = free_port(), tmp_path_factory.mktemp("web") / "calls"
    server = HttpServer([sys.executable, str(SERVERS / "asker.py"), str(port)], "ready", port, LEDGER=str(ledger))
    try:
        yield server
    finally:
        server.kill()


class Lab:
    """An app per process life, over one store and one kind of server."""

    def __init__(self, home: Path, line: str, web: HttpServer | None = None, store: str = "") -> None:
        transport, _, self.mode = line.partition("-")
        self.store = store or f"{home}/runs.db"
        self.home, self.url = home, web.url if transport == "http" and web is not None else None
        self.ledger = Path(web.env["LEDGER"]) if self.url and web is not None else home / "calls"
        self.ledger.unlink(missing_ok=True)

    def app(self, **settings: Any) -> App:
        config: dict[str, Any] = {"mode": self.mode, **settings}
        if self.mode == "legacy":
            config.setdefault("questions", "wait")
        if self.url is not None:
            config["url"] = self.url
        else:
            config = forked("asker.py", env={"LEDGER": str(self.ledger)}, **config)
        return App(self.store, toolbox=Toolbox(mcp={"asker": config}))

    def forget(self) -> None:
        """Make the server refuse its state once, as one does that was started again."""
        Path(f"{self.ledger}.forget").touch()

    def calls(self) -> list[Any]:
        return [json.loads(line) for line in self.ledger.read_text().splitlines()]


def calling(tool: str) -> Any:
    with flow(tool, service=str) as f:
        f.result(f.call(f"asker:{tool}", service=f.input.service))
    return f


def accepted(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


@pytest.mark.parametrize("line", LINES)
def test_each_question_of_a_call_is_a_wait_that_survives_its_process(
    line: str, tmp_path: Path, web: HttpServer
) -> None:
    _answer_two_questions(Lab(tmp_path, line, web))


def test_a_question_waits_in_postgres_as_well(postgres_url: str, tmp_path: Path, web: HttpServer) -> None:
    _answer_two_questions(Lab(tmp_path, "http-2026-07-28", web, postgres_url))


def _answer_two_questions(lab: Lab) -> None:

    async def case() -> None:
        async with lab.app() as app:
            first = await app.run(calling("deploy"), {"service": "shop"}, run_id="r", park=True)
            assert first.status == "waiting"
            [wait] = app.runs.waiting("r")
            assert (wait["path"], wait["event"], wait["node"]) == ("deploy/question-1", "deploy/question-1", "deploy")
            question = wait["question"]
            assert (question["server"], question["message"]) == ("asker", "Which branch of shop?")
            assert question["schema"]["properties"]["branch"]["enum"] == ["main", "next"]

            # An answer that the form does not allow is refused, and names the field.
            for answer, field in (({"branch": "old"}, "payload.branch"), ({"brunch": "main"}, "did you mean 'branch'")):
                with pytest.raises(InvalidInput, match=field):
                    app.runs.send("r", wait["event"], answer)
            with pytest.raises(InvalidInput, match="branch"):
                app.runs.send("r", wait["event"], {})
            assert app.runs.send("r", wait["event"], {"branch": "next"})
            assert not app.runs.send("r", wait["event"], {"branch": "next"})  # the same answer again
            with pytest.raises(NotWaiting, match="answered already"):
                app.runs.send("r", wait["event"], {"branch": "main"})

        async with lab.app() as app:  # another process, another server process
            assert (await app.resume("r", park=True)).status == "waiting"
            [wait] = app.runs.waiting("r")
            assert (wait["event"], wait["question"]["message"]) == ("deploy/question-2", "Deploy shop?")
            app.runs.send("r", wait["event"], {"sure": False})
        async with lab.app() as app:
            done = await app.resume("r", park=True)
            assert done.result == {
                "service": "shop", "branch": accepted(branch="next", copies=2), "sure": accepted(sure=False),
            }  # fmt: skip
            assert app.runs.waiting("r") == []

    asyncio.run(case())
    calls = lab.calls()
    assert len({call["key"] for call in calls}) == 1  # every repeat has the key of the first call
    newer = [[], ["branch"], ["sure"]]
    assert [call["answers"] for call in calls] == ([[], [], []] if lab.mode == "legacy" else newer)


@pytest.mark.parametrize("line", ERAS)
def test_two_questions_at_once_are_asked_one_after_another(line: str, tmp_path: Path, web: HttpServer) -> None:
    lab = Lab(tmp_path, line, web)

    async def case() -> None:
        async with lab.app() as app:
            await app.run(calling("pair"), {"service": "shop"}, run_id="r", park=True)
            app.runs.send("r", "pair/question-1", "decline")
        async with lab.app() as app:
            assert (await app.resume("r", park=True)).status == "waiting"
            app.runs.send("r", "pair/question-2", "cancel")
            done = await app.resume("r", park=True)
            assert done.result == {"service": "shop", "branch": {"action": "decline"}, "sure": {"action": "cancel"}}

    asyncio.run(case())
    if lab.mode != "legacy":  # the server is called once more only: with both answers
        assert [call["answers"] for call in lab.calls()] == [[], ["branch", "sure"]]


@pytest.mark.parametrize("line", ERAS)
def test_a_question_that_is_asked_twice_gets_two_answers(line: str, tmp_path: Path, web: HttpServer) -> None:
    lab = Lab(tmp_path, line, web)

    async def case() -> None:
        async with lab.app() as app:
            await app.run(calling("twice"), {"service": "shop"}, run_id="r", park=True)
            app.runs.send("r", "twice/question-1", {"sure": True})
            assert (await app.resume("r", park=True)).status == "waiting"
            app.runs.send("r", "twice/question-2", {"sure": False})
            done = await app.resume("r", park=True)
            assert (done.result["first"], done.result["second"]) == (accepted(sure=True), accepted(sure=False))

    asyncio.run(case())


@pytest.mark.parametrize("can_sample", [True, False])
def test_a_model_answers_at_once_what_is_asked_together_with_a_person(
    can_sample: bool, tmp_path: Path, web: HttpServer
) -> None:
    lab = Lab(tmp_path, "http-2026-07-28", web)
    prompts: list[str] = []

    def sample(server: str, params: dict[str, Any]) -> dict[str, Any]:
        prompts.append(params["messages"][0]["content"]["text"])
        return {"role": "assistant", "content": {"type": "text", "text": "thanks"}, "model": "m"}

    async def case() -> None:
        async with lab.app(sampling=True) as app:
            app.toolbox.on_sample = sample if can_sample else None
            first = await app.run(calling("draft"), {"service": "shop"}, run_id="r", park=True)
            if not can_sample:
                assert (first.status, app.runs.waiting("r")) == ("failed", [])
                assert "no model answers here (sampling is not set for this server)" in str(first.errors)
                assert "on_elicit" not in str(first.errors)  # the run would wait for that answer
                return
            assert [wait["question"]["message"] for wait in app.runs.waiting("r")] == ["Deploy shop?"]
            app.runs.send("r", "draft/question-1", {"sure": True})
        async with lab.app(sampling=True) as app:
            done = await app.resume("r", park=True)
            assert done.result["sure"] == accepted(sure=True)
            assert done.result["note"]["content"] == {"type": "text", "text": "thanks"}

    asyncio.run(case())
    assert prompts == ["A note for shop"] * can_sample  # the answer of the model is kept over the restart
    assert [call["answers"] for call in lab.calls()] == [[], *[["note", "sure"]] * can_sample]


def test_a_server_that_asks_ever_again_is_refused_with_the_number_of_rounds(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "stdio-2026-07-28")

    async def case() -> None:
        async with lab.app() as app:
            app.toolbox.on_elicit = lambda _: {"sure": True}
            done = await app.run(calling("endless"), {"service": "shop"}, run_id="r", park=True)
            assert "still asks for input after 10 rounds of answers" in done.errors[0]["message"]

    asyncio.run(case())
    assert len(lab.calls()) == 11


@pytest.mark.parametrize("line", ERAS)
def test_an_early_answer_that_does_not_fit_fails_and_a_retry_asks_again(
    line: str, tmp_path: Path, web: HttpServer
) -> None:
    lab = Lab(tmp_path, line, web)
    nodes: list[dict[str, Any]] = [
        {"id": "go", "type": "wait", "event": "go"},
        {"id": "deploy", "type": "tool", "tool": "asker:deploy", "params": {"service": "shop"}},
    ]
    document = {"kind": "chain", "name": "late", "nodes": nodes}

    async def case() -> None:
        async with lab.app() as app:
            await app.run(document, {}, run_id="r", park=True)
            with pytest.raises(NotWaiting, match=r"it waits for the event 'go'$"):
                app.runs.send("r", "deploy/question-1", {"branch": "old"}, early=False)
            app.runs.send("r", "deploy/question-1", {"branch": "old"})
            app.runs.send("r", "go")
            failed = await app.resume("r", park=True)
            assert failed.status == "failed"
            assert failed.errors[0]["message"].endswith("; a retry asks again")
            assert (await app.runs.retry("r", park=True)).status == "waiting"
            app.runs.send("r", "deploy/question-2", {"branch": "main"})
        async with lab.app() as app:  # which restores the answer that did not fit, too
            assert (await app.resume("r", park=True)).status == "waiting"
            app.runs.send("r", "deploy/question-3", "decline")
            done = await app.resume("r", park=True)
            result = done.result["deploy"]
            assert (result["branch"], result["sure"]["action"]) == (accepted(branch="main", copies=2), "decline")

    asyncio.run(case())


def test_a_server_that_has_forgotten_its_state_is_asked_from_the_start(tmp_path: Path, web: HttpServer) -> None:
    lab = Lab(tmp_path, "http-2026-07-28", web)

    async def case() -> None:
        async with lab.app() as app:
            await app.run(calling("deploy"), {"service": "shop"}, run_id="r", park=True)
            app.runs.send("r", "deploy/question-1", {"branch": "main"})
            await app.resume("r", park=True)
            app.runs.send("r", "deploy/question-2", {"sure": True})
            lab.forget()
            done = await app.resume("r", park=True)
            assert (done.status, done.result["sure"]) == ("completed", accepted(sure=True))
            assert done.result["branch"] == accepted(branch="main", copies=2)

    asyncio.run(case())
    answers = [call["answers"] for call in lab.calls()]
    assert answers == [[], ["branch"], ["sure"], [], ["branch"], ["sure"]]


@pytest.mark.parametrize("line", ERAS)
def test_parallel_calls_and_calls_in_a_loop_have_waits_of_their_own(line: str, tmp_path: Path, web: HttpServer) -> None:
    lab = Lab(tmp_path, line, web)
    with flow("inner", service=str) as inner:
        inner.result(inner.call("asker:pay", service=inner.input.service))
    with flow("outer") as f:
        with f.parallel() as both:
            f.call("asker:pay", service="left")
            f.call("asker:pay", service="right")
        each = f.for_each(["a", "b"], lambda name: f.call("asker:pay", service=name), concurrency=2)
        f.result([both, each, f.call("inner", service="part")])

    async def case() -> None:
        async with lab.app() as app:
            app.toolbox.register(app.as_tool(inner))
            result = await app.run(f, {}, run_id="r", park=True)
            seen: dict[str, str] = {}
            while result.status == "waiting":
                for wait in app.runs.waiting("r"):
                    seen[wait["event"]] = wait["question"]["url"].rpartition("/")[2]
                    app.runs.send("r", wait["event"], True)
                result = await app.resume("r", park=True)
            assert sorted(seen.values()) == ["a", "b", "left", "part", "right"]
            assert any(event.startswith("inner/pay/") for event in seen), seen
            assert result.status == "completed"
            paid = json.dumps(result.result)
            assert paid.count('"accept"') == 5

    asyncio.run(case())


def test_somebody_who_can_answer_at_once_is_asked_first(tmp_path: Path, web: HttpServer) -> None:
    for line in ERAS:
        lab = Lab(tmp_path, line, web)

        async def case(lab: Lab) -> Any:
            async with lab.app() as app:
                app.toolbox.on_elicit = lambda question: question.url is not None
                return await app.run(calling("pay"), {"service": "shop"}, park=True)

        result = asyncio.run(case(lab))
        assert result.result["pay"] == {"action": "accept"}, line


def test_without_the_setting_only_newer_servers_make_a_run_wait(tmp_path: Path, web: HttpServer) -> None:
    async def case(line: str, **settings: Any) -> Any:
        async with Lab(tmp_path, line, web).app(**settings) as app:
            return await app.run(calling("pay"), {"service": "shop"}, park=True)

    legacy = asyncio.run(case("http-legacy", questions=None))
    refused = asyncio.run(case("http-2026-07-28", questions="refuse"))
    assert (legacy.status, refused.status) == ("failed", "failed")
    assert 'with questions = "wait" a run waits for the answer: Pay for shop' in legacy.errors[0]["message"]
    assert "asks for input, and nobody answers here" in refused.errors[0]["message"]
    assert "Pay for shop" in refused.errors[0]["message"]
    with pytest.raises(ConfigError, match="questions must be one of wait, refuse"):
        McpServers().add("asker", python("asker.py", questions="later"))


def test_a_node_with_a_timeout_waits_no_longer_for_an_answer(tmp_path: Path, web: HttpServer) -> None:
    document = {
        "kind": "chain",
        "name": "pay",
        "nodes": [{"id": "pay", "type": "tool", "tool": "asker:pay", "params": {"service": "a"}, "timeout": 3_600_000}],
    }

    async def case() -> None:
        async with Lab(tmp_path, "http-2026-07-28", web).app() as app:
            await app.run(document, {}, run_id="r", park=True)
            [wait] = app.runs.waiting("r")
            assert wait["due"] is not None

    asyncio.run(case())


@pytest.mark.parametrize("origin", [{}, {"origin": "model"}], ids=["person", "model"])
def test_a_question_inside_a_program_is_a_wait_that_survives_its_process(
    origin: dict[str, str], tmp_path: Path, web: HttpServer
) -> None:
    lab = Lab(tmp_path, "http-2026-07-28", web)
    code = "import asyncio\nservice: str\nname = service.lower()\nawait asyncio.gather(asker.deploy(service=name))"
    plan = {"kind": "plan", "name": "deploys", "code": code, **origin}

    async def case() -> None:
        async with lab.app() as app:
            first = await app.run(plan, {"service": "Shop"}, run_id="r", park=True)
            assert first.status == "waiting", first
            [wait] = app.runs.waiting("r")
            assert wait["question"]["message"] == "Which branch of shop?"
            app.runs.send("r", wait["event"], {"branch": "next"})
        async with lab.app() as app:  # another process, another server process
            assert (await app.resume("r", park=True)).status == "waiting"
            [wait] = app.runs.waiting("r")
            assert wait["question"]["message"] == "Deploy shop?"
            app.runs.send("r", wait["event"], {"sure": True})
            done = await app.resume("r", park=True)
            assert done.status == "completed", done

    asyncio.run(case())
