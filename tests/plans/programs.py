"""Random programs in the language of plans, most of which run without an error."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any


class Writer:
    """Writes one random program.

    Attributes:
        rows: How often each construct was written.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.rows: Counter[str] = Counter()
        self.ints = ["a"]
        self.lists: list[str] = []
        self.dicts: list[str] = []
        self.texts: list[str] = []
        self.items: list[str] = []
        self.async_functions: list[str] = []
        self.functions: list[str] = []
        self.count = 0
        self.loops = 0

    def program(self) -> str:
        """Return the text of a program."""
        self.line(0, f"a = {self.random.randint(0, 5)}")
        self.line(0, "out = []")
        for _ in range(self.random.randint(3, 8)):
            self.statement(0, depth=0)
        for _ in range(4):
            self.rows["rare"] += 1
            self.rare(0, 0, False)
        names = [*self.ints, *self.lists[:3], *self.texts[:2], "out"]
        self.line(0, f"return [{', '.join(names)}]")
        return "\n".join(self.lines)

    def line(self, indent: int, text: str) -> None:
        """Write a line."""
        self.lines.append("    " * indent + text)

    def new(self, kind: str) -> str:
        """Return a name that is not in use."""
        self.count += 1
        return f"{kind}{self.count}"

    def pick(self, *options: Any) -> Any:
        """Return one of the options."""
        return self.random.choice(options)

    # --- expressions -----------------------------------------------------------------------------

    def integer(self, depth: int = 0) -> str:
        """Return an expression for an integer."""
        choices = [
            lambda: str(self.random.randint(-3, 9)),
            lambda: self.random.choice(self.ints),
            lambda: self.random.choice(self.ints),
        ]
        if depth < 2:
            choices += [
                lambda: f"({self.integer(depth + 1)} {self.pick('+', '-', '*')} {self.integer(depth + 1)})",
                lambda: f"({self.integer(depth + 1)} {self.pick('//', '%')} {self.random.randint(2, 5)})",
                lambda: f"({self.integer(depth + 1)} if {self.test(depth + 1)} else {self.integer(depth + 1)})",
                lambda: f"abs({self.integer(depth + 1)})",
                lambda: f"{self.pick('max', 'min')}({self.integer(depth + 1)}, {self.integer(depth + 1)})",
                lambda: f"len({self.list_(depth + 1)})",
                lambda: f"sum({self.list_(depth + 1)})",
                lambda: f"round({self.integer(depth + 1)} / 3)",
                lambda: f"({self.integer(depth + 1)} or {self.integer(depth + 1)})",
            ]
            if self.functions:
                choices.append(lambda: f"{self.random.choice(self.functions)}({self.integer(depth + 1)})")
            if self.items:
                choices.append(lambda: f"{self.random.choice(self.items)}.id")
                choices.append(lambda: f"len({self.random.choice(self.items)}['tags'])")
        return str(self.random.choice(choices)())

    def list_(self, depth: int = 0) -> str:
        """Return an expression for a list of integers."""
        choices = [lambda: f"[{', '.join(self.integer(2) for _ in range(self.random.randint(0, 3)))}]"]
        if self.lists:
            choices += [lambda: self.random.choice(self.lists)] * 2
        if depth < 2:
            choices += [
                lambda: f"[x * 2 for x in {self.list_(depth + 1)} if x % 2 == {self.random.randint(0, 1)}]",
                lambda: f"sorted({self.list_(depth + 1)}, reverse={self.pick('True', 'False')})",
                lambda: f"{self.list_(depth + 1)}[{self.pick('1:', ':2', '::-1', '-2:')}]",
                lambda: f"list(range({self.integer(2)} % 4))",
                lambda: f"({self.list_(depth + 1)} + {self.list_(depth + 1)})",
                lambda: f"[x + y for x in {self.list_(depth + 1)} for y in (1, 2)]",
                lambda: f"list(map(lambda v: v + 1, {self.list_(depth + 1)}))",
                lambda: f"[i * v for i, v in enumerate({self.list_(depth + 1)})]",
            ]
        return str(self.random.choice(choices)())

    def text(self) -> str:
        """Return an expression for a text."""
        choices = [
            lambda: repr(self.pick("x", "hello world", "")),
            lambda: f'f"{{{self.integer(1)}:03d}} and {{{self.integer(1)}}}"',
            lambda: f"str({self.integer(1)})",
            lambda: f"'-'.join(str(x) for x in {self.list_(1)})",
        ]
        if self.texts:
            choices.append(lambda: f"{self.random.choice(self.texts)}.{self.pick('upper()', 'strip()', 'title()')}")
        if self.items:
            choices.append(lambda: f"{self.random.choice(self.items)}.name")
        return str(self.random.choice(choices)())

    def test(self, depth: int = 0) -> str:
        """Return an expression for a truth value."""
        choices = [
            lambda: f"{self.integer(2)} {self.pick('<', '<=', '>', '==', '!=')} {self.integer(2)}",
            lambda: f"{self.integer(2)} in {self.list_(2)}",
            lambda: f"not {self.integer(2)}",
            lambda: f"0 < {self.integer(2)} <= 5",
        ]
        if depth < 1:
            choices.append(lambda: f"({self.test(1)}) {self.pick('and', 'or')} ({self.test(1)})")
        return str(self.random.choice(choices)())

    # --- statements ------------------------------------------------------------------------------

    def statement(self, indent: int, depth: int, in_loop: bool = False) -> None:
        """Write a statement."""
        options = [self.assign, self.assign, self.call, self.call, self.change, self.append, self.print_]
        if depth < 3:
            options += [self.if_, self.for_, self.for_, self.while_, self.try_, self.try_, self.gather, self.inline]
            options += [self.rare, self.reads, self.each]
        if depth == 0:
            options += [self.function, self.async_function]
        if in_loop:
            options += [self.leave]
        option = self.random.choice(options)
        self.rows[option.__name__] += 1
        option(indent, depth, in_loop)

    def block(self, indent: int, depth: int, in_loop: bool) -> None:
        """Write a block; names that it binds are not used after it."""
        kept = [list(names) for names in (self.ints, self.lists, self.texts, self.items)]
        for _ in range(self.random.randint(1, 3)):
            self.statement(indent, depth, in_loop)
        self.ints, self.lists, self.texts, self.items = kept

    def assign(self, indent: int, depth: int, in_loop: bool) -> None:
        kind = self.pick("int", "int", "list", "text", "swap", "augment")
        if kind == "int":
            name = self.random.choice([*self.ints, self.new("i")])
            self.line(indent, f"{name} = {self.integer()}")
            self.known(self.ints, name)
        elif kind == "list":
            name = self.random.choice([*self.lists, self.new("l")])
            self.line(indent, f"{name} = list({self.list_()})")
            self.known(self.lists, name)
        elif kind == "text":
            name = self.new("s")
            self.line(indent, f"{name} = {self.text()}")
            self.known(self.texts, name)
        elif kind == "swap" and len(self.ints) > 1:
            left, right = self.random.sample(self.ints, 2)
            self.line(indent, f"{left}, {right} = {right}, {left}")
        else:
            self.line(indent, f"{self.random.choice(self.ints)} {self.pick('+=', '-=')} {self.integer(1)}")

    def known(self, names: list[str], name: str) -> None:
        """Remember a name."""
        if name not in names:
            names.append(name)

    def call(self, indent: int, depth: int, in_loop: bool) -> None:
        kind = self.pick("item", "numbers", "save", "inside", "choice", "comprehension", "augment")
        self.rows[f"call {kind}"] += 1
        if kind == "item":
            name = self.new("item")
            self.line(indent, f"{name} = await get_item(n={self.integer(1)})")
            self.known(self.items, name)
        elif kind == "numbers":
            name = self.new("l")
            self.line(indent, f"{name} = await get_numbers({self.integer(1)})")
            self.known(self.lists, name)
        elif kind == "save":
            self.line(indent, f"await save(key={self.text()}, value={self.list_(1)})")
        elif kind == "inside":
            name = self.new("i")
            self.line(indent, f"{name} = {self.integer(1)} + (await get_item({self.integer(1)})).id * 2")
            self.known(self.ints, name)
        elif kind == "choice":
            name = self.new("i")
            self.line(
                indent,
                f"{name} = (await get_item(2)).id if {self.test()} else len(await get_numbers({self.integer(1)}))",
            )
            self.known(self.ints, name)
        elif kind == "comprehension":
            name = self.new("l")
            self.line(
                indent,
                f"{name} = [(await get_item(v)).id for v in {self.list_(1)} if v > {self.random.randint(-1, 3)}]",
            )
            self.known(self.lists, name)
        else:
            self.line(indent, f"{self.random.choice(self.ints)} += len(await get_numbers({self.integer(1)}))")

    def change(self, indent: int, depth: int, in_loop: bool) -> None:
        name = self.new("d")
        self.line(indent, f"{name} = {{'k': {self.integer(1)}, 'l': {self.list_(1)}}}")
        self.line(indent, f"{name}['k'] += {self.integer(1)}")
        self.line(indent, f"{name}['l'] = {name}['l'] + [{self.integer(1)}]")
        self.line(indent, f"out.append({name}.get('{self.pick('k', 'l', 'none')}'))")

    def append(self, indent: int, depth: int, in_loop: bool) -> None:
        self.line(indent, f"out.append({self.pick(self.integer(), self.text(), self.list_())})")

    def print_(self, indent: int, depth: int, in_loop: bool) -> None:
        self.line(indent, f"print({self.text()}, {self.integer(1)})")

    def if_(self, indent: int, depth: int, in_loop: bool) -> None:
        self.line(indent, f"if {self.test()}:")
        self.block(indent + 1, depth + 1, in_loop)
        if self.random.random() < 0.3:
            self.line(indent, f"elif {self.test()}:")
            self.block(indent + 1, depth + 1, in_loop)
        if self.random.random() < 0.5:
            self.line(indent, "else:")
            self.block(indent + 1, depth + 1, in_loop)

    def for_(self, indent: int, depth: int, in_loop: bool) -> None:
        name = self.new("v")
        source = self.pick(self.list_(1), f"range({self.random.randint(0, 4)})")
        self.line(indent, f"for {name} in {source}:")
        kept = list(self.ints)
        self.ints.append(name)
        self.block(indent + 1, depth + 1, True)
        self.ints = kept
        if self.random.random() < 0.2:
            self.rows["for else"] += 1
            self.line(indent, "else:")
            self.block(indent + 1, depth + 1, in_loop)

    def while_(self, indent: int, depth: int, in_loop: bool) -> None:
        name = self.new("w")
        self.line(indent, f"{name} = 0")
        self.line(indent, f"while {name} < {self.random.randint(1, 4)}:")
        self.line(indent + 1, f"{name} += 1")
        self.block(indent + 1, depth + 1, True)

    def leave(self, indent: int, depth: int, in_loop: bool) -> None:
        self.line(indent, f"if {self.test()}:")
        self.line(indent + 1, self.pick("break", "continue", "break", "continue", "return ['early', out]"))

    def try_(self, indent: int, depth: int, in_loop: bool) -> None:
        self.line(indent, "try:")
        name = self.new("r")
        self.line(indent + 1, f"{name} = 'before'")
        self.line(
            indent + 1,
            f"{name} = await risky({self.integer(1)})"
            if self.random.random() < 0.8
            else f"{name} = {self.list_(1)}[2]",
        )
        self.block(indent + 1, depth + 1, in_loop)
        self.line(
            indent,
            f"except {self.pick('ValueError', 'ToolError', 'Exception', '(ValueError, LookupError)')} as e:",
        )
        self.line(indent + 1, "out.append(str(e))")
        self.block(indent + 1, depth + 1, in_loop)
        if self.random.random() < 0.3:
            self.rows["try else"] += 1
            self.line(indent, "else:")
            self.block(indent + 1, depth + 1, in_loop)
        if self.random.random() < 0.3:
            self.rows["finally"] += 1
            self.line(indent, "finally:")
            self.line(indent + 1, f"out.append({name})")

    def gather(self, indent: int, depth: int, in_loop: bool) -> None:
        name = self.new("g")
        if self.random.random() < 0.5:
            self.line(indent, f"{name} = await asyncio.gather(*[get_item(v) for v in {self.list_(1)}])")
            self.line(indent, f"out.append([g.id for g in {name}])")
        else:
            self.line(
                indent,
                f"{name} = await asyncio.gather(get_item({self.integer(1)}), risky({self.integer(1)}), "
                "return_exceptions=True)",
            )
            self.line(indent, f"out.append(str({name}[1]) if isinstance({name}[1], Exception) else {name}[1])")

    def function(self, indent: int, depth: int, in_loop: bool) -> None:
        name = self.new("f")
        self.line(indent, f"def {name}(x, y={self.random.randint(0, 3)}):")
        self.line(indent + 1, f"if x > {self.random.randint(0, 5)}:")
        self.line(indent + 2, "return x - y")
        self.line(indent + 1, f"return x * {self.random.randint(1, 3)} + y")
        self.functions.append(name)

    def async_function(self, indent: int, depth: int, in_loop: bool) -> None:
        name = self.new("h")
        self.line(indent, f"async def {name}(x):")
        self.line(indent + 1, "item = await get_item(x)")
        self.line(indent + 1, f"if item.id > {self.random.randint(0, 4)}:")
        self.line(indent + 2, "return item.id")
        self.line(indent + 1, "for v in item.tags:")
        self.line(indent + 2, "if v == 'b':")
        self.line(indent + 3, "return await risky(x)")
        self.line(indent + 1, "return -1")
        self.async_functions.append(name)

    def reads(self, indent: int, depth: int, in_loop: bool) -> None:
        """Write calls that could overlap, some of which need the values of others."""
        first, second, third = self.new("item"), self.new("i"), self.new("item")
        self.line(indent, f"{first} = await get_item(n={self.integer(1)})")
        self.line(indent, f"{second} = len(await get_numbers({self.pick(self.integer(1), f'{first}.id')})) + 1")
        self.line(indent, f"{third} = await get_item({self.pick(second, self.integer(1))})")
        self.known(self.items, first)
        self.known(self.ints, second)
        self.known(self.items, third)

    def each(self, indent: int, depth: int, in_loop: bool) -> None:
        """Write a loop with a call that may fail."""
        name = self.new("v")
        self.line(indent, f"for {name} in {self.list_(1)}:")
        self.line(indent + 1, "try:")
        self.line(indent + 2, f"out.append(await risky({name}))")
        self.line(indent + 1, f"except {self.pick('ToolError', 'ValueError', 'Exception')}:")
        self.line(indent + 2, self.pick("continue", "break", f"out.append({name})", "pass"))

    def rare(self, indent: int, depth: int, in_loop: bool) -> None:
        """Write one of the constructs that need a few lines of their own."""
        name, number, items = self.new("x"), self.integer(1), self.list_(1)
        text = self.pick(
            f"{name} = asyncio.create_task(get_item({number}))\nout.append((await {name}).id)",
            f"{name} = await asyncio.wait_for(get_item({number}), timeout=30)\nout.append({name}.name)",
            f"async with asyncio.timeout(30):\n    {name} = await get_numbers({number})\nout.append({name})",
            f"await asyncio.sleep(0)\nout.append({number})",
            f"async with asyncio.TaskGroup() as {name}:\n    {name}.create_task(get_item({number}))",
            f"match {number} % 3:\n    case 0:\n        out.append((await get_item(1)).id)\n"
            f"    case 1 | 2 if {self.test(1)}:\n        out.append('few')\n    case _:\n        out.append('other')",
            f"match {items}:\n    case [{name}, *rest]:\n        out.append([{name}, rest])\n    case _:\n        pass",
            f"if ({name} := await get_item({number})).id > 2:\n    out.append({name}.name)",
            f"try:\n    raise ValueError('own', {number})\nexcept ValueError as {name}:\n    out.append(str({name}))",
            f"try:\n    assert {self.test(1)}, 'no'\nexcept AssertionError as {name}:\n    out.append(str({name}))",
            f"{name} = {{str(v): v for v in {items}}}\n{name}.pop('1', None)\nout.append(sorted({name}.items()))",
            f"{name} = {{v % 3 for v in {items}}}\nawait save(key='s', value=sorted({name}))\nout.append(len({name}))",
            f"{name} = sorted({items}, key=lambda v: (v % 2, -v))\nout.append([{name}, any({name}), all({name})])",
            f"{name}, *more = [{number}, *{items}]\nout.append([{name}, more])",
            f"{name} = {{'a': {items}}}\n{name}['a'].append({number})\ndel {name}['a'][0]\nout.append({name})",
            f"out.append(json.loads(json.dumps({{'v': {items}, 'q': math.sqrt(16)}})))",
            f"out.append([list(zip({items}, range(9))), divmod({number}, 7), isinstance({number}, int)])",
            f"{name} = [(await get_item(v)).name for v in {items} for w in range(2) if w]\nout.append({name})",
            f"{name} = (await get_numbers({number})) or [await risky(2)]\nout.append({name})",
            f"{name} = {number}\nout.append(f'{{{name}:>5}}|{{1.5:.2f}}|{{\"a\"!r}}')",
            f"{name} = [3, 1]\n{name}.extend({items})\n{name}.sort(reverse=True)\nout.append({name}[:2])",
            f"{name} = lambda v: v * 2 + 1\nout.append({name}((await get_item({number})).id))",
        )
        for line in text.split("\n"):
            self.line(indent, line)

    def inline(self, indent: int, depth: int, in_loop: bool) -> None:
        if not self.async_functions:
            self.append(indent, depth, in_loop)
            return
        self.line(indent, f"out.append(await {self.random.choice(self.async_functions)}({self.integer(1)}))")
