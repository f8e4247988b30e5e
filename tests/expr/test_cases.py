"""The language by cases: literals, operators, missing values, functions, macros."""

from __future__ import annotations

import pytest

from ropewalk.errors import ExpressionError

from .expr_scope import holds, value

ROWS = [{"p": 3, "q": "b", "t": ["x"]}, {"p": 1, "q": "a", "t": []}, {"p": 2, "q": "b", "t": ["y", "z"]}]
SCOPE = {
    "input": {"x": 3, "name": "Ann", "rows": ROWS, "nul": None, "k": "p", "obj": {"a": 1, "b": 2}},
    "prev": {"value": 3, "status": "paid", "score": None},
    "state": {"count": 3, "items": [1, 2], "rows": ROWS},
    "item": {"price": 2, "qty": 5},
    "var": {"done": False},
}

CASES = {
    "literals": """
        1 -> 1
        1.5e2 -> 150.0
        .5 -> 0.5
        0x1F -> 31
        -9223372036854775808 -> -9223372036854775808
        "a\\"b" -> a"b
        'a\\'b\\n' -> a'b\\n
        "\\u00e9\\x41\\101" -> éAA
        "\\ud83d\\ude00" -> 😀
        r'\\n' -> \\\\n
        '''a'b''' -> a'b
        [1, "a", null,] -> [1, "a", null]
        {"k": [true], 'j': {}} -> {"k": [true], "j": {}}
        1 // a comment -> 1
    """,
    "references": """
        $input.x -> 3
        input.x -> 3
        input["x"] -> 3
        input[input.k] -> null
        input.obj["a"] -> 1
        input.rows[1].q -> "a"
        input.rows.1.q -> "a"
        input.rows[input.x - 2].q -> "a"
        input.rows[1.0].q -> "a"
        input.rows[0 - 1] -> null
        input.name[0] -> null
        input.obj.`a` -> 1
        {"a-b": 1}.`a-b` -> 1
        $.count -> 3
        $.rows[?@.p > 1].q -> ["b", "b"]
        length($.rows[*].t[*]) -> 3
        $.rows.map(e, e.p) -> [3, 1, 2]
    """,
    "the sentences of the language": """
        $.count >= 3 && length($.items) > 0 -> true
        $prev.status == "paid" -> true
        $item.price * $item.qty -> 10
        !$var.done -> true
        not var.done and prev.value == 3 or false -> true
        "1" == 1 -> false
        1 == 1.0 -> true
        true == 1 -> false
        [true] == [1] -> false
        [1, {"a": 2.0}] == [1.0, {"a": 2}] -> true
        {"a": 1, "b": 2} == {"b": 2, "a": 1} -> true
        var.done == 0 -> false
        0 == var.done -> false
        var.done != 0 -> true
        item.price == 2.0 -> true
        var.done == false -> true
        prev.score == null -> true
        0 in [var.done] -> false
    """,
    "precedence": """
        1 + 2 * 3 -> 7
        (1 + 2) * 3 -> 9
        -2 * 3 -> -6
        - 2 - - 3 -> 1
        2 - 3 - 4 -> -5
        true || false && false -> true
        !true || true -> true
        !1 == 2 -> true
        not 1 in [2] -> true
        1 + 1 in [2] -> true
        1 < 2 == true -> true
        false ? 1 : true ? 2 : 3 -> 2
        1 == 2 ? "a" : "b" -> "b"
        true == !false -> true
        false || true ? 1 : 2 -> 1
    """,
    "arithmetic": """
        7 / 2 -> 3.5
        6 / 2 -> 3
        -7 % 2 -> -1
        7 % -2 -> 1
        5.5 % 2 -> 1.5
        0.1 + 0.2 -> 0.30000000000000004
        "a" + "b" -> "ab"
        [1] + [2] -> [1, 2]
        9223372036854775806 + 1 -> 9223372036854775807
        9007199254740993 == 9007199254740992.0 -> false
    """,
    "missing and null": """
        input.nope -> null
        [input.nope] -> [null]
        {"a": input.nope} -> {"a": null}
        input.nope == 1 -> false
        input.nope == null -> false
        input.nope != null -> true
        input.nope != input.nope -> true
        input.nope == input.nope -> false
        input.nope < 1 -> false
        input.nope >= 1 -> false
        1 > input.nope -> false
        input.nope in [1] -> false
        1 in input.nope -> false
        input.nul == null -> true
        input.nul < 1 -> false
        1 < input.nul -> false
        1 >= input.nul -> false
        "a" <= input.nul -> false
        input.nul >= input.nul -> false
        input.x < input.nul -> false
        [3].all(e, e >= input.nul) -> false
        prev.score >= 3 -> false
        has(input.nul) -> true
        has(input.nope) -> false
        exists(input.nul) -> false
        exists(input.x) -> true
        coalesce(input.nope, input.nul, 5, 6) -> 5
        coalesce(input.nope) -> null
        !input.nope -> true
        input.nope && true -> false
        input.nope || true -> true
        input.nope ? 1 : 2 -> 2
        (true ? input.nope : 1) == null -> false
        length(input.nope) -> 0
        lower(input.nope) -> null
        sum(input.nope) -> 0
        input.nope.map(e, e) -> []
        input.nope.all(e, e) -> true
        contains(input.nope, "x") -> false
    """,
    "in": """
        2 in [1, 2.0] -> true
        true in [1] -> false
        "a" in {"a": 1} -> true
        "z" in input.obj -> false
        [1] in [[1.0]] -> true
        "b" in ["a", "b"] -> true
        1 in ["a", "b"] -> false
    """,
    "errors on one side are dropped where the other decides": """
        1 > "a" || true -> true
        true || 1 > "a" -> true
        1 > "a" && false -> false
        [1, "a", 3].exists(e, e > 2) -> true
        [1, "a", 3].all(e, e > 2) -> false
    """,
    "functions on text": """
        size("héé") -> 3
        "Ann".contains("nn") -> true
        contains([1, 2], 2.0) -> true
        "abc".startsWith("ab") && endsWith("abc", "bc") -> true
        upper("a") + "B".lower() + trim("  x ") -> "Abx"
        "a,b,c".split(",") -> ["a", "b", "c"]
        split(" a  b ") -> ["a", "b"]
        "ab".split("") -> ["a", "b"]
        ["a", 1, true, null].join("-") -> "a-1-true-"
        join(["a", "b"]) -> "ab"
        "aXbX".replace("X", "--") -> "a--b--"
        matches("aaab", "^a+b$") -> true
        "xaby".matches("ab") -> true
        interpolate("a", 1, null, [2]) -> "a1[2]"
    """,
    "functions on numbers": """
        min(3, 1, 2) -> 1
        max([3, 1.5]) -> 3
        min(["b", "a"]) -> "a"
        min([]) -> null
        sum([1, 2.5]) -> 3.5
        avg([1, 2]) -> 1.5
        avg([]) -> null
        round(2.5) -> 3
        round(-2.5) -> -3
        round(2.675, 2) -> 2.68
        round(1e300) == 1e300 || true -> true
        abs(-3) -> 3
        int("12") -> 12
        int(-3.9) -> -3
        int(true) -> 1
        float("1e3") -> 1000.0
        float(2) -> 2.0
        string(1.5) -> "1.5"
        string({"a": [null]}) -> "{\\"a\\":[null]}"
        string("x") -> "x"
        bool("true") -> true
        bool("False") -> false
    """,
    "functions on lists and objects": """
        keys(input.obj) -> ["a", "b"]
        values(input.obj) -> [1, 2]
        unique([1, 1.0, "1", true, [1], [1.0], {"a": 1}, {"a": 1.0}]) -> [1, "1", true, [1], {"a": 1}]
        flatten([1, [2, [3]]]) -> [1, 2, [3]]
        sort(["b", 2, null, true, [0], 1.5, "a", false]) -> [null, false, true, 1.5, 2, "a", "b", [0]]
        any([false, true]) -> true
        all([true, false]) -> false
        all([]) -> true
        pick(input, ["x", "obj.b"]) -> {"x": 3, "obj": {"b": 2}}
        pick({"a": 1}, ["z"]) -> {}
        omit(input.obj, ["a"]) -> {"b": 2}
        omit({"a": {"b": 1, "c": 2}}, ["a.b"]) -> {"a": {"c": 2}}
        rename({"a": 1, "b": 2, "c": 3}, {"a": "b", "b": "a"}) -> {"b": 1, "a": 2, "c": 3}
        rename([{"a": 1}, 5], {"a": "z"}) -> [{"z": 1}, 5]
        merge({"a": 1, "o": {"x": 1}}, null, {"o": {"y": 2}}) -> {"a": 1, "o": {"y": 2}}
        deep_merge({"o": {"x": 1}}, {"o": {"y": 2}}) -> {"o": {"x": 1, "y": 2}}
        concat([1], 2, null, [[3]]) -> [1, 2, [3]]
        zip([1, 2], ["a"]) -> [[1, "a"], [2, null]]
        query({"a": [1, 2]}, "$.a[?@ > 1]") -> [2]
    """,
    "macros": """
        [1, 2, 3].all(e, e > 0) -> true
        [1, 2, 3].exists(e, e == 2) -> true
        [1, 2, 2].exists_one(e, e == 2) -> false
        [1, 2].map(e, e * 2) -> [2, 4]
        [1, 2, 3].map(e, e > 1, e * 10) -> [20, 30]
        [1, 2, 3].filter(e, e != 2) -> [1, 3]
        map([1, 2], e, e + 1) -> [2, 3]
        filter(input.rows, $item.p > 1).map($item.q) -> ["b", "b"]
        any([1, 2], e, e > 1) -> true
        [5, 6].map($index) -> [0, 1]
        [5, 6].map(item + index) -> [5, 7]
        input.rows.flat_map(e, e.t) -> ["x", "y", "z"]
        [1, 2, 3].reduce(acc, e, acc + e, 10) -> 16
        [1, 2, 3].reduce($acc * 10 + $item, 0) -> 123
        input.rows.group_by(e, e.q).map(k, k) -> ["b", "a"]
        [1, 1.5, true, null].group_by(e, e) -> {"1": [1], "1.5": [1.5], "true": [true], "null": [null]}
        [1, 1.0, 0, -0.0, 1e300].group_by($item) -> {"1": [1, 1.0], "0": [0, -0.0], "1e+300": [1e300]}
        [9007199254740993, 9007199254740992.0].group_by($item).map(k, k) -> ["9007199254740993", "9007199254740992"]
        input.rows.sort(e, e.p).map(e, e.p) -> [1, 2, 3]
        input.rows.sort($item.p, "DESC").map($item.p) -> [3, 2, 1]
        input.rows.sort(e, e.p, "Asc").map(e, e.p) -> [1, 2, 3]
        input.rows.sort($item.p, "desc").map($item.p) -> [3, 2, 1]
        input.rows.sort(e, [e.q, e.p]).map(e, e.p) -> [1, 2, 3]
        sort(input.rows, e, e.q, "desc").map(e, e.p) -> [3, 2, 1]
        {"b": 1, "a": 2}.map(k, k) -> ["b", "a"]
        [[1, 2], [3]].map(l, l.map(e, e + size(l))) -> [[3, 4], [4]]
        [1].map(input, input + 1) -> [2]
        [1].map(input, $input.x) -> [3]
        [[1], [2]].map($item.map($item + 1)) -> [[2], [3]]
        [1, 2].map(x, [10, 20].map(y, x * y)) -> [[10, 20], [20, 40]]
        [3].map(e, e, ) -> [3]
    """,
}


def _table():
    import json

    for topic, lines in CASES.items():
        for line in lines.strip().splitlines():
            text, _, expected = line.strip().rpartition(" -> ")
            if topic == "literals" and expected[0] not in '0123456789-[{"':
                wanted = expected.replace("\\n", "\n") if "\\\\" not in expected else "\\n"
            else:
                wanted = json.loads(expected)
            yield pytest.param(text, wanted, id=f"{topic}: {text}")


@pytest.mark.parametrize(("text", "expected"), list(_table()))
def test_expression_gives(text, expected):
    found = value(text, **SCOPE)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("input.x == 3", True), ("input.nope", False), ("null", False), ("false", False), ("true", True),
     ("var.done || input.x > 2", True), ("prev.value >= 3", True), ("prev.value > 3", False),
     ("3 <= prev.value", True), ("input.name > 'Am'", True), ("prev.score >= 0", False),
     ("input.rows.exists(e, e.p == 1)", True), ("input.x != 3", False), ("input.nope != 3", True)],
)  # fmt: skip
def test_condition_is_decided(text, expected):
    assert holds(text, **SCOPE) is expected


@pytest.mark.parametrize("text", ["1", "'true'", "input.rows", "input.obj", "input.x ? 1 : 2", "!3", "3 && true"])
def test_condition_of_another_type_is_an_error(text):
    with pytest.raises(ExpressionError, match="a condition must be true or false, not"):
        holds(text, **SCOPE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("input.name * 2", r"`\*` needs two numbers, not string and number, in `\$input.name \* 2`"),
        ("input.nope + 1", r"`\+` needs two numbers, two strings or two lists, not nothing and number"),
        ("'a' + 1", "not string and number"),
        ("true + 1", "not boolean and number"),
        ("-input.name", "`-` needs a number, not string"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "remainder by zero"),
        ("1.0 / 0.0", "division by zero"),
        ("9223372036854775807 + 1", "integer past 64 bits"),
        ("9223372036854775807 * input.x", "integer past 64 bits"),
        ("-(-9223372036854775808)", "integer past 64 bits"),
        ("abs(-9223372036854775808)", "integer past 64 bits"),
        ("1e308 * 10", "not a finite number"),
        ("int(1e300)", "past 64 bits"),
        ("'a' < 1", "cannot order string and number"),
        ("[1] < [2]", "cannot order list and list"),
        ("1 < 2 < 3", "cannot order boolean and number"),
        ("'a' in 'abc'", r"write contains\(text, part\)"),
        ("1 in 2", "needs a list or an object"),
        ("lower(1)", "lower needs a string, not number"),
        ("sum([1, null])", "sum needs a list of numbers, not null"),
        ("min([1, 'a'])", "min needs only numbers or only strings, not number and string"),
        ("max(true, 1)", "max needs numbers or strings, not boolean"),
        ("int('x')", "int cannot read 'x'"),
        ("int('1_000')", "int cannot read"),
        ("float('nan')", "float cannot read 'nan'"),
        ("float('inf')", "float cannot read 'inf'"),
        ("round(1.5, 99)", "0 to 15 digits"),
        ("keys([1])", "keys needs an object, not list"),
        ("input.x.map(e, e)", "map needs a list, not number"),
        ("'ab'.map(e, e)", "map needs a list, not string"),
        ("[1].filter(e, e)", "a condition must be true or false, not number"),
        ("[[1]].group_by(e, e)", "the key of group_by must be a string, a number or a boolean"),
        ("[1].sort(e, e, input.name)", 'the order of a sort is "asc" or "desc", in `'),
        ("[1].sort(e, e, input.x)", 'the order of a sort is "asc" or "desc", in `'),
        ("[1, 'a'].all(e, e > 0)", "cannot order string and number"),
        ("[1].exists_one(e, e > 'a')", "cannot order"),
        ("custom(input.name, 1)", "no transform '.*' is registered"),
        ("pick(1, ['a'])", "pick needs an object or a list of objects"),
        ("[['a']].map(e, join([e]))", "join needs strings, numbers and booleans, not list"),
        ("matches('a', input.name + '(')", "bad pattern"),
    ],
)
def test_wrong_types_are_an_error_that_names_the_place(text, message):
    with pytest.raises(ExpressionError, match=message):
        value(text, **SCOPE)
