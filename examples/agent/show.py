"""The agent beside this file with a model that follows a script: no key, no network, the same loop.

python examples/agent/show.py
"""

import asyncio
from pathlib import Path

from ropewalk.app.app import App
from ropewalk.testing import ScriptedModel, wants

HERE = Path(__file__).parent
SCRIPT = [
    [wants("stock", {"material": "nylon"}), wants("refund", {"all": True})],  # the second is no tool of its
    [wants("order", {"material": "nylon", "metres": 42})],
    '{"inStock": 8, "ordered": "42"}',  # which does not fit the schema: it is told so, and asked again
    '{"inStock": 8, "ordered": 42}',
]


async def main() -> None:
    async with App.open(HERE) as app:
        app.model = ScriptedModel(*SCRIPT)
        done = await app.run(HERE / "agent.yaml", {"material": "nylon"})
        for call in done.conversation["trace"]:
            print(f"{call['name']}: {call['outcome'].get('value', call['outcome'].get('error'))}")
        print(f"{done.stop_reason}: {done.result}")


asyncio.run(main())
