"""Any custom program: ``launch.command`` is its argument vector."""

from __future__ import annotations

from understudy.model.capabilities import COMMON_FIELDS, TIME_LIMITS, USAGE_LIMITS, Capabilities, OptionValue

CAPABILITIES = Capabilities(
    name="generic",
    title="Custom command",
    description="Any command that edits files.",
    runner="understudy.runners.agent_clis.generic:Runner",
    launch={
        "command": (),
        "output": (
            OptionValue(
                value="text",
                title="Plain text",
                description="The output is the answer, complete when the program exits.",
            ),
            OptionValue(value="events", title="Events", description="One JSON event per line, `result` last."),
        ),
        "prompt_delivery": (
            OptionValue(value="argument", title="Argument", description="As an argument, in place of {prompt}."),
            OptionValue(value="stdin", title="Standard input", description="On standard input, which is then closed."),
            OptionValue(value="file", title="File", description="As a file, whose path replaces {promptFile}."),
        ),
        "relay": (),
        **COMMON_FIELDS,
    },
    limits=TIME_LIMITS | USAGE_LIMITS,
    usage_needs=("output", "events"),
    sessions=True,
)
