"""Requests about notifications: list, create, remove and test their receivers."""

from __future__ import annotations

import secrets
import time

import msgspec

from understudy.api import messages
from understudy.api.caller import Caller
from understudy.api.handlers import configuration
from understudy.config.loading import loader
from understudy.integrations.notifications import message, receivers, sent
from understudy.journal import change_notifications, delegation_folder
from understudy.model.config.config_entries import NotificationEntry
from understudy.model.config.delegators import Scope
from understudy.model.errors import ErrorKind, UnderstudyError


def list_all(caller: Caller, params: messages.NoParams) -> messages.NotificationsResult:
    """List the receivers of notifications with the outcome of the last notifications."""
    loaded = loader.load(None, trusted=False)
    return messages.NotificationsResult(
        notifications=[_with_state(entry) for entry in loaded.notifications.values()], problems=loaded.problems
    )


def create(caller: Caller, params: messages.NotificationCreateParams) -> NotificationEntry:
    """Create a receiver of notifications; nothing is sent to it yet."""
    made = configuration.editor(caller, None).create(params.receiver, Scope.USER)
    sent.forget(delegation_folder.state_root(), made.receiver.name)
    change_notifications.notify(configuration.CHANGED)
    return made


def delete(caller: Caller, params: messages.DeleteParams) -> messages.EmptyResult:
    """Remove a receiver of notifications."""
    configuration.editor(caller, None).delete("notification", params.name, params.revision)
    sent.forget(delegation_folder.state_root(), params.name)
    change_notifications.notify(configuration.CHANGED)
    return messages.EmptyResult()


def test(caller: Caller, params: messages.NotificationTestParams) -> messages.NotificationTestResult:
    """Send a notification to a receiver now, whatever its events and workspaces are; raise why it was not taken."""
    entry = configuration.find(
        loader.load(None, trusted=False).notifications, params.name, ErrorKind.UNKNOWN_NOTIFICATION
    )
    configuration.require_usable(entry.state.problems)
    began, root = time.monotonic(), delegation_folder.state_root()
    try:
        receivers.deliver(entry.receiver, message.of_test(params.name, f"test-{secrets.token_hex(8)}"), pauses=())
    except UnderstudyError as error:
        sent.record(root, params.name, error.info())
        raise
    sent.record(root, params.name, None)
    return messages.NotificationTestResult(seconds=round(time.monotonic() - began, 3))


def _with_state(entry: NotificationEntry) -> NotificationEntry:
    """Return an entry with the outcome of its notifications."""
    kept = sent.state(delegation_folder.state_root(), entry.receiver.name)
    return msgspec.structs.replace(entry, state=msgspec.structs.replace(kept, problems=entry.state.problems))
