"""Every example of every page does what the page says; `page` holds the convention."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from claude.wire import StandIn

from .block_checks import check_page, options_of_commands, wrong_commands
from .example_runner import ExampleRunner
from .page import NEEDS, PAGES, PROJECT, Page

_MINIMUM = 377  # blocks of all pages: a change of the parser must not lose some of them
_RUNNABLE = [page for page in PAGES if page.has_examples]


def _by_name(pages: list[Page]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("document", pages, ids=[page.name for page in pages])


@pytest.fixture
def variables(document: Page, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """What the page needs, as variables of the environment of its examples."""
    found: dict[str, str] = {}
    if "examples" in document.needs:
        shutil.copytree(PROJECT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns(".ropewalk"))
    if "postgres" in document.needs:
        found["DATABASE_URL"] = request.getfixturevalue("postgres_url")
    if "model" not in document.needs:
        yield found
        return
    model = StandIn(tmp_path)
    try:
        model.answer(*[{"content": "An answer."}] * 9)
        yield found | {"ANTHROPIC_BASE_URL": model.url}
    finally:
        model.close()


@_by_name(PAGES)
def test_links_commands_and_blocks_of_a_page_are_valid(document: Page, tmp_path: Path) -> None:
    check_page(document, tmp_path)


@pytest.mark.timeout(1800)  # a page of recipes is some thirty commands
@pytest.mark.process
@_by_name(_RUNNABLE)
def test_the_examples_of_a_page_do_what_they_say(document: Page, tmp_path: Path, variables: dict[str, str]) -> None:
    ExampleRunner(document, tmp_path, variables).run()


def test_every_block_runs_is_checked_or_says_why_not() -> None:
    blocks = [(page, block) for page in PAGES for block in page.blocks]
    fences = sum(line.lstrip().startswith("```") for page in PAGES for line in page.text.splitlines())
    assert fences == 2 * len(blocks) >= 2 * _MINIMUM
    unnoticed = [f"{page.name}:{block.line}: {block.kind}" for page, block in blocks if block.treatment is None]
    assert unnoticed == [], "say why it is not run: <!-- not run: REASON -->"
    assert set().union(*(page.needs for page in PAGES)) <= NEEDS.keys()


@pytest.mark.process
@pytest.mark.parametrize(
    ("block", "line", "message"),
    [
        ("```sh\ntrue\nfalse\n```", 4, "exit code 1"),
        ("```python\n\n1 / 0\n```", 4, "line 5, in <module>"),
        ("```console\n$ echo one\none\n$ echo two\n2\n```", 6, "two"),
        ("```console\n$ false\n$ echo $?\n0\n```", 5, "the exit code is 1"),
        ('```console\n$ ropewalk run "nothing.yaml"\n```', 4, "nothing.yaml"),
        ("```python\nprint(1)\n```\n\n```text\n2\n```", 8, "prints\n1"),
        ("```text\n1\n```", 4, "no block above"),
    ],
)
def test_an_example_that_fails_is_named_with_its_line(block: str, line: int, message: str, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"# A page\n\n{block}\n")
    with pytest.raises(AssertionError) as caught:
        ExampleRunner(Page(path), tmp_path, {}).run()
    assert f"page.md:{line}: " in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```python\nif\n```", "page.md:4: SyntaxError"),
        ("<!-- not run: a reason -->\n```sh\nif\n```", "page.md:5: AssertionError"),
        ("```yaml\na: [\n```", "page.md:4: "),
        ("```yaml\nkind: chain\nnodes: [{id: a, type: tol}]\n```", "page.md:4: InvalidFlow"),
        ('<!-- runs: {"tools": {}, "expect": {"a": 2}} -->\n```yaml\nnodes: [{id: a, type: transform, input: 1}]\n```',
         "page.md:5: AssertionError: {'a': 1}"),
        ("```json\n{\n```", "page.md:4: JSONDecodeError"),
        ("```toml\n[tools]\nmodles = []\n```", "page.md:4: "),
        ("```expr\n1 + 1 -> 3\n```", "page.md:4: AssertionError: 1 + 1 -> 3"),
        ("```reference\n\"$input.name\" -> 3\n```", "page.md:4: AssertionError"),
        ("[there](nowhere.md)", "nowhere.md leads nowhere"),
        ("`ropewalk runs lst`", "no such command"),
        ("```ini\nExecStart=/x/ropewalk serve --prot 1 --log json\n```", "no option ['--prot']"),
    ],
)  # fmt: skip
def test_what_is_wrong_on_a_page_is_found(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"# A page\n\n{text}\n")
    with pytest.raises(AssertionError) as caught:
        check_page(Page(path), tmp_path)
    assert problem in str(caught.value)


def test_a_right_command_is_accepted() -> None:
    assert options_of_commands().keys() >= set(wrong_commands("`ropewalk doctor --runs`"))
    assert wrong_commands("`ropewalk doctor --runs`") == []
