"""Drives `delegate serve` with the PyPI `mcp` client, as a host in Python would.

    mcp_client.py DELEGATE PROJECT STATE PROVIDER_URL

The client checks every structuredContent against the tool's outputSchema by
itself. Prints one JSON object with what it saw; any failure is an exception.
"""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


def field(thing, *names):
    """A field under the name that this version of the client has for it."""
    for name in names:
        if hasattr(thing, name):
            return getattr(thing, name)
    raise AttributeError(names)


def text_of(result):
    return result.content[0].text


def structured(result):
    return field(result, "structured_content", "structuredContent")


async def drive(binary, project, state, provider):
    saw = {}
    progress = []

    async def on_progress(done, total, message):
        progress.append((done, total, message))

    server = StdioServerParameters(
        command=binary,
        args=["serve", "--base-url", provider, "--model", "fake-model",
              "--wire", "openai", "--workspace", project, "--state-dir", state],
        cwd=project,
    )
    async with stdio_client(server) as (read, write):
        async with ClientSession(read, write) as session:
            hello = await session.initialize()
            saw["protocol"] = field(hello, "protocol_version", "protocolVersion")
            saw["server"] = field(hello, "server_info", "serverInfo").name
            tools = (await session.list_tools()).tools
            saw["tools"] = [tool.name for tool in tools]
            saw["ping"] = text_of(await session.call_tool("ping", {}))
            status = structured(await session.call_tool("local_backend_status", {}))
            saw["models"] = status.get("available_models")

            done = await session.call_tool(
                "delegate_to_deepseek", {"task": "write hello.txt"},
                progress_callback=on_progress,
            )
            saw["delegated"] = structured(done)
            saw["delegated_text"] = text_of(done)
            saw["progress"] = progress

            refused = await session.call_tool("delegate_to_deepseek", {"task": "again"})
            saw["refused"] = text_of(refused)
            recovery = structured(await session.call_tool("get_deepseek_recovery", {}))
            saw["recovery"] = recovery
            ids = [entry["transaction_id"] for entry in recovery["pending"]]
            saw["acknowledged"] = structured(await session.call_tool(
                "acknowledge_deepseek_mutations", {"transaction_ids": ids}))
            saw["left"] = structured(await session.call_tool("get_deepseek_recovery", {}))["count"]

            wrong = await session.call_tool("delegate_to_deepseek", {"task": "t", "model": "A"})
            saw["wrong_is_error"] = field(wrong, "is_error", "isError")
            missing = await session.call_tool(
                "delegate_to_local_agent", {"agent_name": "../x", "task": "t"})
            saw["missing_agent"] = structured(missing)
    return saw


print(json.dumps(asyncio.run(drive(*sys.argv[1:5]))))
