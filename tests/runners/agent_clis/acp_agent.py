"""An ACP agent written with the agent side of the protocol's SDK: what it does depends on its first argument."""

import asyncio
import json
import sys
from pathlib import Path

import acp
from acp import schema


def option(name, kind):
    return schema.PermissionOption(option_id=f"{name}-id", name=name, kind=kind)


class Agent(acp.Agent):
    def __init__(self, what):
        self.what = what
        self.seen = {}
        self.cancelled = asyncio.Event()

    def on_connect(self, conn):
        self.client = conn

    async def initialize(self, protocol_version, client_capabilities=None, client_info=None, **_):
        self.seen["capabilities"] = client_capabilities.model_dump(exclude_unset=True, mode="json")
        can = schema.AgentCapabilities(load_session=True)
        return acp.InitializeResponse(protocol_version=protocol_version, agent_capabilities=can)

    async def new_session(self, cwd, mcp_servers=None, **_):
        self.seen |= {"cwd": cwd, "servers": [(one.name, one.command, one.args) for one in mcp_servers or []]}
        values = [
            schema.SessionConfigSelectOption(value=f"vendor/{name}", name=name.title()) for name in ("big", "small")
        ]
        return acp.NewSessionResponse(
            session_id="the-session",
            config_options=[
                schema.SessionConfigOptionSelect(
                    id="the-model",
                    name="Model",
                    category="model",
                    type="select",
                    current_value="vendor/big",
                    options=values,
                )
            ],
            modes=schema.SessionModeState(
                current_mode_id="ask",
                available_modes=[
                    schema.SessionMode(id="ask", name="Ask"),
                    schema.SessionMode(id="x#plan", name="Plan it"),
                ],
            ),
        )

    async def load_session(self, cwd, session_id, mcp_servers=None, **_):
        self.seen["loaded"] = session_id
        await self.say(session_id, "What I said before.")
        await self.client.session_update(
            session_id,
            schema.UsageUpdate(session_update="usage_update", used=9, size=99, cost={"amount": 1.5, "currency": "USD"}),
        )
        return schema.LoadSessionResponse()

    async def set_session_mode(self, session_id, mode_id, **_):
        self.seen["mode"] = mode_id

    async def set_config_option(self, config_id, session_id, value, **_):
        self.seen["model"] = (config_id, value)
        return schema.SetSessionConfigOptionResponse(config_options=[])

    async def cancel(self, session_id, **_):
        self.cancelled.set()

    async def say(self, session, text):
        await self.client.session_update(session, acp.update_agent_message_text(text))

    async def prompt(self, session_id, prompt, **_):
        update, self.seen["prompt"] = self.client.session_update, prompt[0].text
        if self.what == "sleeps":
            await self.say(session_id, "I wait.")
            await self.cancelled.wait()
            await self.say(session_id, "Cancelled.")
            return acp.PromptResponse(stop_reason="cancelled")
        file = Path("made.txt").resolve()
        await update(session_id, acp.update_agent_thought_text("I think."))
        await update(session_id, acp.update_plan([acp.plan_entry("Make it", status="in_progress")]))
        await update(session_id, acp.start_tool_call("c1", "write", kind="edit", status="pending", raw_input={}))
        diff = acp.tool_diff_content(str(file), "made\n")
        call = schema.ToolCallUpdate(tool_call_id="c1", title="write", kind="edit", content=[diff], raw_input={"n": 1})
        given = [option("Yes", "allow_once"), option("Always", "allow_always")]
        given += [] if self.what == "no-reject" else [option("No", "reject_once")]
        answer = await self.client.request_permission(session_id=session_id, tool_call=call, options=given)
        self.seen["answer"] = answer.outcome.model_dump(mode="json", by_alias=True, exclude_none=True)
        allowed = self.seen["answer"].get("optionId") in {"Yes-id", "Always-id"}
        if allowed:
            file.write_text("made\n")
        status = "completed" if allowed else "failed"
        await update(
            session_id, acp.update_tool_call("c1", status=status, content=[acp.tool_content(acp.text_block("done"))])
        )
        await update(
            session_id,
            schema.UsageUpdate(
                session_update="usage_update", used=9, size=99, cost={"amount": 1.75, "currency": "USD"}
            ),
        )
        await self.say(session_id, json.dumps(self.seen))
        used = schema.Usage(total_tokens=12, input_tokens=10, output_tokens=2)
        return acp.PromptResponse(stop_reason="end_turn", usage=used)


if __name__ == "__main__":
    asyncio.run(acp.run_agent(Agent(sys.argv[1])))
