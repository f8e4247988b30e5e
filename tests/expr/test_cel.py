"""Where we agree with CEL: cases in the manner of its conformance suite, by its chapters."""

from __future__ import annotations

import json

import pytest

from ropewalk.errors import ExpressionError

from .expr_scope import value

AGREED = """
# self evaluation
0 -> 0
-1 -> -1
0x55555555 -> 1431655765
-0x55555555 -> -1431655765
1e+3 -> 1000.0
.99 -> 0.99
'' -> ""
"\\"" -> "\\""
r'\\d' -> "\\\\d"
[] -> []
{"k": "v"} -> {"k": "v"}
null -> null
# comparison
1 == 1 -> true
1 == 1.0 -> true
'a' == 'A' -> false
null == null -> true
[1, 2] == [2, 1] -> false
{"a": 1, "b": 2} == {"b": 2, "a": 1} -> true
{"a": 1} == {"a": 1, "b": 2} -> false
1 == "1" -> false
false < true -> true
'abc' < 'abd' -> true
'Abc' < 'aBC' -> true
1 < 1.5 -> true
2 in [1, 2] -> true
'k' in {"k": 1} -> true
[] in [[]] -> true
# logic, whatever the order
true && false -> false
false || true -> true
!false -> true
!!true -> true
true || 1 / 0 > 1 -> true
1 / 0 > 1 || true -> true
false && 1 / 0 > 1 -> false
1 / 0 > 1 && false -> false
true ? 1 : 1 / 0 -> 1
false ? 1 / 0 : 2 -> 2
# precedence and grouping
1 + 2 * 3 - 4 -> 3
8 - 3 - 2 -> 3
16 / 4 / 2 -> 2
-(1 + 2) -> -3
true || true && false -> true
true ? false ? 1 : 2 : 3 -> 2
!true == false -> true
# arithmetic
40 + 2 -> 42
42 % 5 -> 2
-42 % 5 -> -2
42 % -5 -> 2
42 * -1 -> -42
4.5 - 0.5 -> 4.0
9223372036854775807 -> 9223372036854775807
-9223372036854775808 -> -9223372036854775808
'a' + 'b' -> "ab"
[1] + [2] -> [1, 2]
# strings
size('πέντε') -> 5
'hello'.contains('ell') -> true
'hello'.startsWith('') -> true
'hello'.endsWith('lo') -> true
'hubba'.matches('ubb') -> true
matches('cows', '^cow$') -> false
# lists and maps
[7, 8, 9][1] -> 8
[7, 8, 9][0.0] -> 7
{"a": {"b": 1}}.a.b -> 1
{"a-b": 1}.`a-b` -> 1
{"a": 1}["a"] -> 1
size({"a": 1}) -> 1
[1, 2].size() -> 2
has({"a": null}.a) -> true
has({"a": null}.b) -> false
# macros
[1, 2, 3].all(e, e > 0) -> true
[1, 'foo', 3].all(e, e % 2 == 0) -> false
[].all(e, e > 0) -> true
[1, 'foo', 3].exists(e, e != '1') -> true
[1, 2, 3].exists_one(x, x % 2 == 0) -> true
[1, 2, 3].map(n, n * 2) -> [2, 4, 6]
[1, 2, 3].map(n, n > 1, n * 2) -> [4, 6]
[1, 2, 3].filter(n, n % 2 == 1) -> [1, 3]
{"a": 1, "b": 2}.exists(k, k == "b") -> true
[[1], [2, 3]].exists(l, l.exists(n, n == 3)) -> true
[1].exists(x, [x + 1].exists(x, x == 2)) -> true
# conversions
int("-0") -> 0
int(1.9) -> 1
float("1e3") -> 1000.0
string(true) -> "true"
string(123) -> "123"
bool("t") -> true
"""

REFUSED = """
1 / 0
1 % 0
9223372036854775807 + 1
-9223372036854775808 - 1
5000000000 * 5000000000
-(-9223372036854775808)
true && 1
1 && true
!1
1 ? 2 : 3
1 < 'a'
'a' + 1
[1] < [2]
[1, 'foo', 3].all(e, e % 2 == 1)
[1, 2, 3].exists_one(n, n / 0 > 1)
int('x')
nope
nope(1)
1 +
"""


def _agreed():
    for line in AGREED.strip().splitlines():
        if not line.startswith("#"):
            text, _, expected = line.rpartition(" -> ")
            yield text, json.loads(expected)


@pytest.mark.parametrize(("text", "expected"), list(_agreed()))
def test_gives_what_cel_gives(text, expected):
    found = value(text)
    assert found == expected
    assert (type(found) is bool) == (type(expected) is bool)


@pytest.mark.parametrize("text", REFUSED.strip().splitlines())
def test_refuses_what_cel_refuses(text):
    with pytest.raises(ExpressionError):
        value(text)
