"""An MCP client calls a flow as a tool, and hears of each node: `python examples/mcp_server/show.py`"""

import asyncio
from pathlib import Path

from ropewalk.tools.mcp.servers import McpServers

HERE = Path(__file__).parent


async def main() -> None:
    async with McpServers() as servers:
        servers.add("port", {"command": "ropewalk", "args": ["mcp", "-C", str(HERE), "--store", "memory"]})
        await servers.connect("port")
        for tool in servers.tools("port"):
            print(f"{tool.name}: {tool.description}")
        ship = {"berth": "south", "draught": 3.8}
        answer = await servers.call_tool("port", "can_berth", ship, on_progress=lambda step: print(step.message))
        print(answer.structured_content)
        refused = await servers.call_tool("port", "can_berth", {"berth": "east", "draught": 1})
        print(refused.content[0].text)


asyncio.run(main())
