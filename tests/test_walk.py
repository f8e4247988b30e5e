"""`scripts/walk.py` follows a value through calls, returns and fields of records, and stops at other values."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.usefixtures("collector_off")
PROJECT = Path(__file__).parents[1]
LAYERS = [{"words"}, {"shelf"}, {"shop"}, {"doors"}]
TEXTS = {
    "__init__.py": "",
    "words/__init__.py": "",
    "words/check.py": "def check(word):\n    return word\n\ndef count(word):\n    return len(word)\n",
    "shelf/__init__.py": "from .book import Book as Volume\n",
    "shelf/book.py": (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n\n"
        "@dataclass\nclass Book:\n    number: int\n    title: str = ''\n\n"
        "    @property\n    def name(self) -> str:\n        return self.title\n"
    ),
    "shelf/shelf.py": (
        "from __future__ import annotations\nfrom . import Volume\n\n"
        "class Shelf:\n    def put(self, book: Volume) -> None:\n        self.lines = [book.title]\n\n"
        "    def weigh(self, book: Volume) -> int:\n        return book.number\n"
    ),
    "shop/__init__.py": "",
    "shop/shop.py": (
        "from __future__ import annotations\nfrom functools import partial\n\n"
        "from ..shelf.book import Book\nfrom ..shelf.shelf import Shelf\nfrom ..words import check as checks\n\n"
        "class Shop:\n    def __init__(self, shelf: Shelf) -> None:\n        self._shelf = shelf\n\n"
        "    def sell(self, *, title: str) -> None:\n        checked = checks.check(title)\n"
        "        size = checks.count(checked)\n        self.note(size)\n        later = partial(self.order, 1)\n"
        "        self._shelf.put(Book(1, checked))\n        unknown(later).send(title)\n\n"
        "    def note(self, size: int) -> None: ...\n\n"
        "    def order(self, number: int, title: str) -> None: ...\n\n"
        "    def label(self, book: Book) -> str:\n        return self.print(book.name)\n\n"
        "    def print(self, text: str) -> str:\n        return ''\n"
    ),
    "doors/__init__.py": "",
    "doors/web.py": (
        "from __future__ import annotations\nfrom ..shop.shop import Shop\n\n"
        "class Web:\n    shop: Shop\n\n"
        "    def post(self, body: str) -> None:\n        self.shop.sell(title=body or '')\n"
    ),
}


@pytest.fixture(scope="module")
def walking() -> ModuleType:
    spec = importlib.util.spec_from_file_location("walk_source", PROJECT / "scripts" / "walk.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["walk_source"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def package(tmp_path: Path) -> Path:
    root = tmp_path / "library"
    for name, text in TEXTS.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_a_value_is_followed_through_calls_returns_and_fields(walking: ModuleType, package: Path) -> None:
    _, route, figures = walking.walk(package, "doors/web.py:Web.post:body", LAYERS)
    assert [place.path for place in route.stays] == [
        "Web.post", "Shop.sell", "check", "Shop.sell", "count",  # gives it back; what it computes is another value
        "Book.name", "Shop.label", "Shop.print",  # a property of the record that holds it
        "Shelf.put",
    ]  # fmt: skip
    assert {(holder.name, name) for holder, name in route.fields} == {
        ("Book", "title"), ("Book", "name"), ("Shelf", "lines"),
    }  # fmt: skip
    assert [line.partition(": ")[2] for line in route.lost] == ["unknown(later).send"]
    assert (figures.places, figures.rooms, figures.climbs) == (8, 4, 3)


def test_a_function_that_is_passed_with_the_value_gets_it(walking: ModuleType, package: Path) -> None:
    shop = package / "shop" / "shop.py"
    shop.write_text(shop.read_text().replace("partial(self.order, 1)", "partial(self.order, 1, title)"))
    route = walking.walk(package, "doors/web.py:Web.post:body", LAYERS)[1]
    assert "Shop.order" in {place.path for place in route.places}


def test_a_walk_that_exceeds_its_budget_is_named(walking: ModuleType, package: Path, tmp_path: Path) -> None:
    settings = tmp_path / "pyproject.toml"
    table = '[tool.ropewalk.walks]\n"doors/web.py:Web.post:body" = {{ places = {}, rooms = 4, climbs = 3 }}\n'
    settings.write_text(table.format(8))
    assert walking.over_budget(package, settings, LAYERS) == []
    settings.write_text(table.format(7))
    (message,) = walking.over_budget(package, settings, LAYERS)
    assert message.startswith("doors/web.py:Web.post:body: 8 places for 7; ")


def test_an_entry_that_is_gone_ends_the_walk(walking: ModuleType, package: Path) -> None:
    with pytest.raises(SystemExit, match=r"doors/web\.py:Web\.post:gone: there is no such parameter"):
        walking.walk(package, "doors/web.py:Web.post:gone", LAYERS)


def test_the_walks_of_the_project_are_within_their_budgets(walking: ModuleType) -> None:
    layers = walking.read_layers(PROJECT / "tests" / "test_house.py")
    assert walking.over_budget(PROJECT / "src" / "ropewalk", PROJECT / "pyproject.toml", layers) == []
