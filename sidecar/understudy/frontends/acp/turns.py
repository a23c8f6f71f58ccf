"""One prompt: start or continue a delegation, follow it, pass its questions on, and show its result.

Cancelling the task of a turn (the client is gone) changes nothing about the delegation; only ``Session.cancelled``
cancels it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from acp import helpers, schema
from acp.exceptions import RequestError
from acp.helpers import update_agent_message_text as message
from acp.interfaces import Client
from pydantic import ValidationError

from understudy.api.serving import conversations
from understudy.frontends.acp import decide_commands, result_updates
from understudy.frontends.acp.event_updates import Translator, Update
from understudy.frontends.acp.prompt_blocks import Prompt
from understudy.frontends.acp.session_caller import SessionCaller, Threads
from understudy.frontends.acp.session_options import DECISIONS, DEFAULT
from understudy.frontends.acp.sessions import Session
from understudy.model.delegation import events
from understudy.model.delegation.delegations import Delegation, PermissionRequest, StartParams
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.hunks import Review
from understudy.model.states import State
from understudy.model.text import delegation_text, path_quoting, sanitize
from understudy.model.text.sanitize import one_line
from understudy.model.verdicts import Verdict

WAIT_SECONDS = 30.0
"""How long one request waits for the next event."""
SETTLE_SECONDS = 10.0
"""How long the worker of a finished delegation may still hold it."""
_DETAIL = 8000
_TITLE = 200
_LISTED = 20
_JOINED = 65_536
"""Characters from which a text is not joined with the next piece."""
_NOTHING = Review(pending=0, accepted=0, rejected=0)
_TRUST = "trust"
_ACCEPT, _LATER, _REJECT = "accept", "later", "reject"
_REMEMBER = "understudy:remember"
_Result = TypeVar("_Result")
_RESTART = frozenset({ErrorKind.BASE_UNAVAILABLE, ErrorKind.CONFLICT, ErrorKind.UNKNOWN_DELEGATION})
"""Kinds with which a reply fails that can only begin again: the worktree is gone, or there is nothing to reply to."""


@dataclass
class Turn:
    """What a prompt needs."""

    session: Session
    caller: SessionCaller
    client: Client
    threads: Threads

    async def run(self, prompt: Prompt) -> schema.PromptResponse:
        """Answer a prompt. Raises ``UnderstudyError``, and ``ConnectionError`` if the client is gone."""
        if prompt.command in DECISIONS:
            await self._decide(prompt)
            return schema.PromptResponse(stop_reason="end_turn")
        if prompt.command is not None and prompt.command not in self.session.options.recipes:
            raise UnderstudyError(
                ErrorKind.UNKNOWN_RECIPE,
                f"There is no command /{prompt.command}.",
                hint=f"Use /{', /'.join([*self.session.options.recipes, *DECISIONS])}, or begin with a word.",
            )
        try:
            await self._begin(prompt)
        except UnderstudyError:
            if not self.session.cancelled.is_set():
                raise
            return schema.PromptResponse(stop_reason="cancelled")
        if self.session.cancelled.is_set():
            await self.cancel()
        delegation = await self.follow()
        if not self.session.cancelled.is_set():
            await self._ask_to_accept(delegation)
        cancelled = self.session.cancelled.is_set()
        spent = delegation.verdict is Verdict.BUDGET_EXHAUSTED
        return schema.PromptResponse(
            stop_reason="cancelled" if cancelled else "max_turn_requests" if spent else "end_turn",
            usage=_usage(delegation),
        )

    async def cancel(self) -> None:
        """Cancel the delegation of the session."""
        newest = self.session.newest
        if newest is not None:
            with contextlib.suppress(UnderstudyError):
                await self._call("delegations/cancel", id=newest)

    async def follow(self) -> Delegation:
        """Send updates until the newest delegation has finished, then its result, and return it."""
        session = self.session
        translator = session.translator
        assert translator is not None  # noqa: S101 - something was started
        question: tuple[str, asyncio.Task[None]] | None = None
        finished = False
        try:
            while not finished:
                page = await self._call(
                    "delegations/events", id=translator.delegation, after=session.seq, waitSeconds=WAIT_SECONDS
                )
                for event in page.events:
                    if isinstance(event, events.PermissionAnswered) and question is not None:
                        question[1].cancel()
                        question = None
                finished = any(isinstance(event, events.Finished) for event in page.events)
                await self.send(joined(update for event in page.events for update in translator.updates(event)))
                session.seq = page.last
                latest: Delegation = await self._call("delegations/get", id=translator.delegation)
                finished = finished or (latest.state is State.FINISHED and latest.last_seq <= session.seq)
                request = latest.waiting_for
                if request is not None and (question is None or question[0] != request.request_id):
                    if question is not None:
                        question[1].cancel()
                    asking = asyncio.create_task(self._ask_permission(latest.delegator, translator, request))
                    question = request.request_id, asking
        finally:
            if question is not None:
                question[1].cancel()
        delegation: Delegation = await self._call(
            "delegations/wait", id=translator.delegation, timeoutSeconds=SETTLE_SECONDS
        )
        await self.show_result(delegation)
        return delegation

    async def show_result(self, delegation: Delegation) -> None:
        """Send the changes to decide on, and the verdict."""
        if delegation.review.pending:
            try:
                await self.send(await self.threads.run(result_updates.diff_calls, self.caller, delegation))
            except UnderstudyError as error:
                await self.send([message(f"\n\n{error.message} {error.hint}\n")])
        text = result_updates.verdict_text(delegation)
        if text:
            await self.send([message(text)])

    async def send(self, updates: Sequence[Update]) -> None:
        """Send updates of the session."""
        for update in updates:
            await self.client.session_update(session_id=self.session.id, update=update)

    # -- begin -----------------------------------------------------------------------------------------------

    async def _begin(self, prompt: Prompt) -> None:
        """Start a delegation, reply to the newest one, or tell it something while it works."""
        session = self.session
        if prompt.command is None and not session.starts_new and session.newest is not None:
            newest: Delegation = await self._call("delegations/get", id=session.newest)
            if newest.state is not State.FINISHED:
                await self._call("delegations/say", id=newest.id, text=prompt.text)
                return
            for _ in range(_LISTED):
                if newest.superseded_by is None:
                    break
                newest = await self._call("delegations/get", id=newest.superseded_by)
            try:
                begun = await self._trusted("delegations/reply", id=newest.id, text=prompt.text)
            except UnderstudyError as error:
                if error.kind not in _RESTART:
                    raise
                await self.send([message(f"{one_line(error.message)} This begins again.\n\n")])
            else:
                session.begin(begun.id)
                return
        params = self._start_params(prompt)
        begun = await self._trusted("delegations/start", **msgspec.to_builtins(params))
        session.begin(begun.id)
        delegation: Delegation = await self._call("delegations/get", id=begun.id)
        info = schema.SessionInfoUpdate(
            session_update="session_info_update",
            title=one_line(delegation.title)[:_TITLE],
            updated_at=delegation.started_at,
        )
        await self.send([info])

    def _start_params(self, prompt: Prompt) -> StartParams:
        session = self.session
        recipe = prompt.command or session.recipe
        files, target, text = prompt.files, None, prompt.text
        if recipe in session.options.writes_file:
            words = text.split(maxsplit=1)
            if not words:
                raise UnderstudyError(
                    ErrorKind.INVALID_PARAMS, "No file to write is named.", hint=f"/{recipe} FILE INSTRUCTIONS"
                )
            target = session.folder / words[0].strip("`'\"")
            files = [path for path in files if path != target]
            text = words[1] if len(words) > 1 else ""
        return StartParams(
            recipe=recipe,
            task=text or None,
            files=[path_quoting.uri_of(path) for path in files] or None,
            range=prompt.lines if files else None,
            target=None if target is None else path_quoting.uri_of(target),
            delegator=None if session.delegator == DEFAULT else session.delegator,
            workspace=path_quoting.uri_of(session.workspace),
        )

    async def _trusted(self, method: str, **params: Any) -> Any:
        """Call a method; in an untrusted workspace, ask the user to trust it first."""
        try:
            return await self._call(method, **params)
        except UnderstudyError as error:
            if error.kind is not ErrorKind.UNTRUSTED_WORKSPACE or not await self._ask_to_trust():
                raise
        return await self._call(method, **params)

    # -- questions -------------------------------------------------------------------------------------------

    async def _ask_to_trust(self) -> bool:
        workspace = str(self.session.workspace)
        trust = await self._call("workspace/trust", workspace=workspace)
        effects = "\n".join(f"- {one_line(effect)}" for effect in trust.effects)
        # Some clients answer `allow_once` by themselves; trust is for always.
        chosen = await self._choose(
            f"{self.session.id}:trust",
            f"Trust {one_line(workspace)}?",
            f"This workspace is not trusted, so nothing ran in it. Trusting it allows:\n{effects}",
            [(_TRUST, "Trust this workspace", "allow_always"), (_LATER, "Not now", "reject_once")],
        )
        if chosen != _TRUST:
            return False
        await self._call("workspace/trust", workspace=workspace, trusted=True, digest=trust.digest)
        return True

    async def _ask_permission(self, delegator: str, translator: Translator, request: PermissionRequest) -> None:
        """Pass a question of the agent on; what the user does not answer here stays open elsewhere.

        The title says who asks: an agent writes its own, such as that of a question by Understudy.
        """
        options: list[tuple[str, str, schema.PermissionOptionKind]] = [
            (choice.id, one_line(choice.title) or choice.kind, choice.kind)
            for choice in request.options
            # What is allowed permanently must be visible, and removable, elsewhere; a text needs a field.
            if choice.kind in {"allow_once", "reject_once"} and not choice.takes_text
        ]
        remembered = delegation_text.remembered(request)
        allowing = next((choice for choice in request.options if choice.kind == "allow_once"), None)
        if remembered is not None and allowing is not None and len(remembered) <= _TITLE:
            options.append((_REMEMBER, f"Always allow {one_line(remembered)}", "allow_always"))
        places = [translator.location(path) for path in (request.paths or [])[:_LISTED]]
        detail = sanitize.sanitize(delegation_text.describe_request(request))[:_DETAIL]
        free = next((choice for choice in request.options if choice.takes_text), None)
        if free is not None:  # a client shows options only
            answer = f"understudy answer {translator.delegation} TEXT"
            detail = f"{detail}\n\nYour own answer: `{answer}`".strip()
        identifier = translator.permission_id(request.request_id)
        chosen = await self._choose(
            identifier,
            one_line(f"{delegator} asks: {request.title}")[:_TITLE],
            detail,
            options,
            kind="other" if request.kind == "question" else request.kind,
            locations=[str(place) for place in places if place is not None],
        )
        if chosen is None:
            if not self.session.cancelled.is_set():
                text = f"Not answered. Answer it elsewhere: understudy answer {translator.delegation}\n"
                await self.send([message(text)])
            return
        option = allowing.id if chosen == _REMEMBER and allowing is not None else chosen
        params = {"requestId": request.request_id, "option": option, "remember": chosen == _REMEMBER}
        try:
            await self._call("delegations/answer", id=translator.delegation, **params)
        except UnderstudyError as error:
            if error.kind is not ErrorKind.CONFLICT:  # the first answer counts
                await self.send([message(f"{error.message} {error.hint}\n")])

    async def _ask_to_accept(self, delegation: Delegation) -> None:
        """Ask what to do with a result; without an answer, it waits for a decision."""
        if not delegation.review.pending:
            return
        try:
            choice = await self.threads.run(decide_commands.choose, self.caller, delegation, ())
            calls = await self.threads.run(result_updates.diff_calls, self.caller, delegation)
        except UnderstudyError:
            return  # decided elsewhere, or it cannot be read
        # A client that allows everything by itself must not accept what other programs execute.
        flagged = decide_commands.flagged(choice)
        plain = [entry for entry in choice.hunks if entry.file.flag_reason is None]
        if flagged:
            listed = "".join(f"\n- **{path}**: {reason}" for path, reason in list(flagged.items())[:_LISTED])
            text = f"Accept these only after you have read them, with `/accept --include-flagged`:{listed}\n\n"
            await self.send([message(text)])
        if not plain:
            return
        count = len(plain)
        paths = list(dict.fromkeys(sanitize.path(entry.file.path) for entry in plain))
        listed = "\n".join(f"- {path}" for path in paths[:_LISTED])
        more = f"\nand {len(paths) - _LISTED} more files" if len(paths) > _LISTED else ""
        changes = "this change" if count == 1 else f"these {count} changes"
        # Some clients show the diff of the call that they ask about; several files have a call of their own each.
        call = calls[0] if len(calls) == 1 else None
        chosen = await self._choose(
            f"{delegation.id}:decide" if call is None else call.tool_call_id,
            f"Accept {changes} ({str(delegation.verdict).replace('_', ' ')})?",
            f"{listed}{more}",
            [
                (_ACCEPT, "Accept", "allow_once"),
                (_LATER, "Decide later", "reject_once"),
                (_REJECT, "Reject", "reject_once"),
            ],
            kind="edit",
            diffs=() if call is None else call.content,
            unanswered="pending",
        )
        if chosen not in {_ACCEPT, _REJECT}:
            return
        decided = decide_commands.Choice(plain)
        decision: decide_commands.Decision = "accept" if chosen == _ACCEPT else "reject"
        outcome = await self.threads.run(decide_commands.decide, self.caller, delegation, decided, decision)
        await self.send(outcome)

    async def _choose(
        self,
        identifier: str,
        title: str,
        detail: str,
        options: Sequence[tuple[str, str, schema.PermissionOptionKind]],
        *,
        kind: schema.ToolKind = "other",
        locations: Sequence[str] = (),
        diffs: Sequence[Any] = (),
        unanswered: schema.ToolCallStatus = "failed",
    ) -> str | None:
        """Ask the user, and return the id of an option; None without an answer, also if the prompt is cancelled."""
        shown = [helpers.tool_content(helpers.text_block(detail))] if detail else []
        call = schema.ToolCallUpdate(
            tool_call_id=identifier,
            title=title,
            kind=kind,
            status="pending",
            content=[*shown, *diffs] or None,
            locations=[schema.ToolCallLocation(path=path) for path in locations] or None,
        )
        offered = [
            schema.PermissionOption(option_id=option_id, name=name, kind=what) for option_id, name, what in options
        ]
        asked = self.client.request_permission(session_id=self.session.id, tool_call=call, options=offered)
        try:
            answer = await self._unless_cancelled(asked)
        except (RequestError, ValidationError):
            answer = None  # it cannot ask, or answered something else
        chosen = None
        if answer is not None and isinstance(answer.outcome, schema.AllowedOutcome):
            chosen = next((option_id for option_id, _, _ in options if option_id == answer.outcome.option_id), None)
        answer_name = next((name for option_id, name, _ in options if option_id == chosen), "not answered")
        allowed = any(option_id == chosen and what.startswith("allow") for option_id, _, what in options)
        left = unanswered if chosen in {None, _LATER} else "failed"
        ended = schema.ToolCallProgress(
            session_update="tool_call_update",
            tool_call_id=identifier,
            status="completed" if allowed else left,
            title=f"{title}{'' if title.endswith('?') else ':'} {answer_name}"[: _TITLE * 2],
        )
        await self.send([ended])
        return chosen

    async def _unless_cancelled(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result | None:
        """Return the result, None if the prompt is cancelled before."""
        asked = asyncio.ensure_future(coroutine)
        cancelled = asyncio.ensure_future(self.session.cancelled.wait())
        try:
            await asyncio.wait({asked, cancelled}, return_when=asyncio.FIRST_COMPLETED)
            return asked.result() if asked.done() else None
        finally:
            asked.cancel()
            cancelled.cancel()

    # -- commands --------------------------------------------------------------------------------------------

    async def _decide(self, prompt: Prompt) -> None:
        if self.session.newest is None:
            raise UnderstudyError(
                ErrorKind.CONFLICT, "This session has no result yet.", hint="Write what should be done."
            )
        delegation: Delegation = await self._call("delegations/get", id=self.session.newest)
        await self.send(await self.threads.run(_command, self.caller, delegation, prompt))

    async def _call(self, method: str, /, **params: Any) -> Any:
        return await self.threads.call(self.caller, method, **params)


async def replay(turn: Turn, members: Sequence[Delegation]) -> bool:
    """Send the history of a session: what the user asked for, the events, and the newest result.

    Return whether the newest delegation has finished.
    """
    for number, member in enumerate(members):
        turn.session.begin(member.id)
        translator = turn.session.translator
        assert translator is not None  # noqa: S101 - set by ``begin``
        asked = await turn.threads.run(conversations.asked, member.id)
        updates: list[Update] = [helpers.update_user_message_text(sanitize.sanitize(asked))]
        while True:
            page = await turn.threads.call(turn.caller, "delegations/events", id=member.id, after=turn.session.seq)
            if not page.events:
                break
            updates += [update for event in page.events for update in translator.updates(event)]
            turn.session.seq = page.last
            await turn.send(joined(updates))
            updates = []
        await turn.send(updates)
        current: Delegation = await turn.threads.call(turn.caller, "delegations/get", id=member.id)
        if current.state is not State.FINISHED:
            return False
        if number == len(members) - 1:
            await turn.show_result(current)
        elif (text := result_updates.verdict_text(msgspec.structs.replace(current, review=_NOTHING))) != "":
            await turn.send([message(text)])
    return True


def joined(updates: Any) -> list[Update]:
    """Return updates with adjacent pieces of one text as one."""
    merged: list[Update] = []
    for update in updates:
        last: Any = merged[-1] if merged else None
        if (
            isinstance(update, schema.AgentMessageChunk | schema.AgentThoughtChunk)
            and type(last) is type(update)
            and isinstance(update.content, schema.TextContentBlock)
            and isinstance(last.content, schema.TextContentBlock)
            and len(last.content.text) < _JOINED
        ):
            both = schema.TextContentBlock(type="text", text=last.content.text + update.content.text)
            merged[-1] = update.model_copy(update={"content": both})
        else:
            merged.append(update)
    return merged


def _command(caller: SessionCaller, delegation: Delegation, prompt: Prompt) -> list[Update]:
    """Carry a command out; blocks."""
    match prompt.command:
        case "undo":
            return decide_commands.undo(caller, delegation)
        case "diff":
            return decide_commands.show(caller, delegation)
        case "evidence":
            return decide_commands.evidence(caller, delegation)
        case "accept":
            words = prompt.text.split()
            confirmed = "--include-flagged" in prompt.said.split()
            named = [word for word in words if word != "--include-flagged"]
            choice = decide_commands.choose(caller, delegation, named)
            if not confirmed and (flagged := decide_commands.flagged(choice)):
                listed = ", ".join(f"{path} ({reason})" for path, reason in list(flagged.items())[:_LISTED])
                raise UnderstudyError(
                    ErrorKind.CONFLICT,
                    f"Programs execute or follow some of these files: {listed}.",
                    hint="Read these changes, then accept them with /accept --include-flagged.",
                )
            return decide_commands.decide(caller, delegation, choice, "accept", include_flagged=confirmed)
        case _:
            choice = decide_commands.choose(caller, delegation, prompt.text.split(), with_reason=True)
            return decide_commands.decide(caller, delegation, choice, "reject")


def _usage(delegation: Delegation) -> schema.Usage:
    used = delegation.usage
    return schema.Usage(
        total_tokens=used.input_tokens + used.output_tokens,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        thought_tokens=used.reasoning_tokens or None,
        cached_read_tokens=used.cache_read_tokens or None,
        cached_write_tokens=used.cache_write_tokens or None,
    )
