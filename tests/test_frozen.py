"""Our `dataclass` against the standard library's: the same class body under both, the same behaviour."""

from __future__ import annotations

import ast
import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ropewalk.errors import Place, Problem
from ropewalk.expr.ast import Lit
from ropewalk.fast_dataclass import dataclass
from ropewalk.ir import Node
from ropewalk.ops import Call

SOURCE = Path(__file__).parents[1] / "src" / "ropewalk"
OPTIONS: list[dict[str, bool]] = [
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"frozen": True, "slots": True, "eq": False},
    {"frozen": True, "repr": False},
    {"slots": True},
    {},
]


def point(decorate: Callable[..., Any], options: dict[str, bool]) -> Any:
    @decorate(**options)
    class Point:
        """A body with every kind of field that we use."""

        x: int
        y: int = 2
        tags: list[str] = field(default_factory=list)
        note: str = field(default="", compare=False, repr=False)
        last: str = field(default="z", kw_only=True)

        def far(self) -> bool:
            return self.x > 10

    return Point


@pytest.fixture(params=OPTIONS, ids=lambda options: "-".join(options) or "plain")
def both(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    return point(dataclass, request.param), point(dataclasses.dataclass, request.param)


def outcome(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except (TypeError, AttributeError) as error:
        return type(error), str(error)


MADE: list[Callable[[Any], Any]] = [
    lambda cls: cls(x=1),
    lambda cls: cls(1),
    lambda cls: cls(1, 3, ["a"]),
    lambda cls: cls(x=1, y=3, tags=["a"], note="n", last="l"),
    lambda cls: cls(),
    lambda cls: cls(y=1),
    lambda cls: cls(x=1, z=2),
    lambda cls: cls(1, 2, [], "", "last"),
]


@pytest.mark.parametrize("make", MADE)
def test_instances_are_made_and_refused_as_by_the_standard_library(both: Any, make: Callable[[Any], Any]) -> None:
    def seen(cls: Any) -> Any:
        made = make(cls)
        return {name: getattr(made, name) for name in ("x", "y", "tags", "note", "last")}

    ours, theirs = (outcome(lambda cls=cls: seen(cls)) for cls in both)
    assert ours == theirs


def test_each_instance_gets_a_default_of_its_own(both: Any) -> None:
    ours, _ = both
    assert ours(x=1).tags is not ours(x=1).tags


def test_what_is_shown_compared_and_hashed_is_the_same(both: Any) -> None:
    def seen(cls: Any) -> Any:
        one, same, other = cls(x=1, tags=(), note="a"), cls(x=1, tags=(), note="b"), cls(x=2, tags=())
        shown = repr(one).split(" object at ")[0]
        hashed = outcome(lambda: hash(one) == hash(same))
        return shown, one == same, one == other, one == 1, one.__eq__(1), hashed, one.far()

    ours, theirs = both
    assert seen(ours) == seen(theirs)


@pytest.mark.parametrize("slots", [False, True])
def test_nothing_can_be_set_or_deleted(slots: bool) -> None:
    one = point(dataclass, {"frozen": True, "slots": slots})(x=1)
    for name in ("x", "new"):
        with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
            setattr(one, name, 2)
        with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{name}'"):
            delattr(one, name)
    assert one.x == 1


@pytest.mark.parametrize("slots", [False, True])  # with slots the standard library of 3.11 raises a TypeError here
def test_a_plain_subclass_keeps_what_it_adds(slots: bool) -> None:
    cls = point(dataclass, {"frozen": True, "slots": slots})

    class Under(cls):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(x=1)
            self.more = 2

    one = Under()
    del one.more
    with pytest.raises(FrozenInstanceError):
        one.x = 5
    assert one != cls(x=1)
    assert "Under(x=1" in repr(one)


def test_introspection_tells_the_same(both: Any) -> None:
    def seen(cls: Any) -> Any:
        return (
            cls.__doc__,
            cls.__name__,
            cls.__match_args__,
            str(inspect.signature(cls)).replace("'", ""),
            cls.__init__.__qualname__,
            [(f.name, f.type, f.default is dataclasses.MISSING, f.kw_only) for f in dataclasses.fields(cls)],
            cls.__dataclass_params__.frozen,
            "__slots__" in vars(cls) and cls.__slots__,
        )

    ours, theirs = both
    assert seen(ours) == seen(theirs)


def test_copies_differ_as_asked(both: Any) -> None:
    def seen(cls: Any) -> Any:
        one = cls(x=1, tags=["a"], note="n")
        deep, shallow, other = copy.deepcopy(one), copy.copy(one), dataclasses.replace(one, y=9)
        assert deep.tags is not one.tags
        assert shallow.tags is one.tags
        return [dataclasses.asdict(made) for made in (deep, shallow, other)]

    ours, theirs = both
    assert seen(ours) == seen(theirs)


def test_one_of_ours_is_pickled_with_all_its_fields() -> None:
    problem = Problem(path="a", message="b", place=Place("f", 1, 2))
    assert pickle.loads(pickle.dumps(problem)) == problem


def test_a_class_keeps_the_methods_it_defines() -> None:
    @dataclass(frozen=True)
    class Own:
        """Equal to everything."""

        x: int

        def __post_init__(self) -> None:
            object.__setattr__(self, "x", self.x + 1)

        def __eq__(self, other: object) -> bool:
            return True

        def __repr__(self) -> str:
            return "mine"

    assert Own(1).x == 2
    assert (Own(1), repr(Own(1)), hash(Own(1)) == hash(Own(1))) == (3, "mine", True)


def test_a_value_that_holds_itself_is_shown() -> None:
    @dataclass(frozen=True, slots=True)
    class Holder:
        """Holds a list."""

        items: list[Any]

    one = Holder([])
    one.items.append(one)
    assert repr(one).endswith("Holder(items=[...])")


def test_a_class_without_fields_equals_its_like() -> None:
    @dataclass(frozen=True, slots=True)
    class Nothing:
        """Nothing at all."""

    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(Nothing())
    assert repr(Nothing()).endswith("Nothing()")


def test_a_class_without_a_docstring_gets_its_fields_as_one() -> None:
    @dataclass(frozen=True, slots=True)
    class Pair:
        left: int
        right: int = 0

    assert Pair.__doc__ == "Pair(left, right)"


def test_what_it_does_not_do_is_refused_when_the_class_is_made() -> None:
    with pytest.raises(TypeError, match="a base is a dataclass"):

        @dataclass(frozen=True)
        class Below(Place):
            """One more."""

            more: int = 0

    with pytest.raises(TypeError, match="takes every field"):

        @dataclass(frozen=True)
        class Derived:
            """A field that is not given."""

            x: int = field(default=0, init=False)

    with pytest.raises(TypeError, match="are not supported here"):

        @dataclass(frozen=True)
        class Counted:
            """What belongs to the class is no field."""

            kind: ClassVar[str] = "a"

    with pytest.raises(TypeError, match="without a default comes after"):

        @dataclass(frozen=True)
        class Disordered:
            """Arguments by place that may be left out come last."""

            x: int = 0
            y: int

    with pytest.raises(ValueError, match="mutable default for tags"):

        @dataclass(frozen=True)
        class Shared:
            """A list for all."""

            tags: list[str] = []  # noqa: RUF012 - that is what is refused


def test_classes_of_one_shape_keep_their_own_names_and_defaults() -> None:
    @dataclass(frozen=True, slots=True)
    class Left:
        """Its names are those that the code of `__init__` has beside them."""

        made: int
        put: list[int] = field(default_factory=list)

    @dataclass(frozen=True, slots=True)
    class Right:
        """The same shape."""

        set0: str
        self_: dict[str, int] = field(default_factory=dict)

    assert (Left(1), Right(set0="a")) == (Left(made=1, put=[]), Right("a", {}))
    assert str(inspect.signature(Right)).startswith("(set0: 'str', self_: 'dict[str, int]' = ")
    with pytest.raises(TypeError, match=r"Left.__init__\(\) missing 1 required positional argument: 'made'"):
        Left()  # type: ignore[call-arg]


def test_what_has_slots_and_is_not_frozen_can_be_set_and_has_no_hash() -> None:
    @dataclass(slots=True)
    class Open:
        """Its values change."""

        x: int
        tags: list[str] = field(default_factory=list)

    one = Open(1)
    one.x = 2
    del one.tags
    assert Open.__init__.__code__.co_filename == "<string>"
    assert (one.x, hasattr(one, "tags"), hasattr(one, "__dict__")) == (2, False, False)
    assert (Open(1) == Open(1), Open(1) == Open(2)) == (True, False)
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    assert copy.deepcopy(Open(3, ["a"])) == Open(3, ["a"])


def test_the_standard_library_takes_one_of_ours_for_a_frozen_base() -> None:
    @dataclasses.dataclass(frozen=True)
    class Far(Place):
        """A place with a name."""

        name: str = ""

    assert Far("f", 1, 2, name="n").name == "n"
    with pytest.raises(FrozenInstanceError):
        Far("f", 1, 2).line = 3  # type: ignore[misc]


def test_a_class_is_inspected_before_it_is_called() -> None:
    @dataclass(frozen=True, slots=True)
    class Fresh:
        file: str
        line: int = 1

    class Sub(Fresh):
        def __init__(self) -> None:
            super().__init__("s")

    assert list(inspect.signature(Sub).parameters) == []
    assert list(inspect.signature(Fresh).parameters) == ["file", "line"]
    assert not hasattr(Fresh("f"), "__signature__")
    assert (Sub().file, Sub().line) == ("s", 1)


def test_it_matches_by_position_as_well() -> None:
    match Place("f", 3, 4):
        case Place(file, line, _):
            assert (file, line) == ("f", 3)


def test_every_frozen_class_of_the_package_is_made_the_quick_way() -> None:
    assert Node(id="n", op=Call(tool="t", args=Lit({}))).id == "n"  # its __init__ is generated at the first call
    assert Node.__init__.__code__.co_filename == "<string>"
    slow = [
        file.relative_to(SOURCE).as_posix()
        for file in sorted(SOURCE.rglob("*.py"))
        if file.name != "frozen.py"
        and "@dataclass(frozen=True" in (text := file.read_text("utf-8"))
        and any(
            isinstance(node, ast.ImportFrom)
            and node.module == "dataclasses"
            and "dataclass" in [alias.name for alias in node.names]
            for node in ast.walk(ast.parse(text))
        )
    ]
    assert slow == []
