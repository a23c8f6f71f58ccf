"""Test open documents: folding the changes gives the text in the editor, in every encoding."""

from __future__ import annotations

import logging
import re
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.frontends.lsp.editor import documents as docs
from understudy.frontends.lsp.editor.documents import Documents, offset_of, position_of, text_edits
from understudy.git import repository
from understudy.journal import editor_saves
from understudy.model.errors import ErrorKind, UnderstudyError

URI = "file:///tmp/caf%C3%A9.py"
ENCODINGS = ["utf-8", "utf-16", "utf-32"]
CODECS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
WIDTH = {"utf-8": 1, "utf-16": 2, "utf-32": 4}
texts = st.text(st.sampled_from("ab \r\n\u00e9\u2028\x0b\U0001f600\u20ac"), max_size=40)
numbers = st.integers(0, 12) | st.just(2**31 - 1)
positions = st.tuples(numbers, numbers)
changes = st.tuples(st.none() | st.tuples(positions, positions), texts)


def model_offset(text: str, position: tuple[int, int], encoding: str) -> int:
    """Find an offset in another way, as a reference: encode the characters of the line one by one."""
    line, units = position
    ends = [0, *(found.end() for found in re.finditer("\r\n|\r|\n", text))]
    if line >= len(ends):
        return len(text)
    index = ends[line]
    while index < len(text) and text[index] not in "\r\n":
        units -= len(text[index].encode(CODECS[encoding])) // WIDTH[encoding]
        if units < 0:
            break
        index += 1
    return index


def sent(place, text: str) -> dict:
    """Return a change as an editor sends it; ``place``: start and end, None for the whole document."""
    ends = [{"line": line, "character": character} for line, character in place or ()]
    return {"text": text} if place is None else {"range": {"start": ends[0], "end": ends[1]}, "text": text}


def model_change(text: str, change, encoding: str) -> str:
    place, new = change
    if place is None:
        return new
    start, end = sorted(model_offset(text, each, encoding) for each in place)
    return text[:start] + new + text[end:]


@given(texts, st.lists(st.lists(changes, max_size=3), max_size=8), st.sampled_from(ENCODINGS), st.data())
def test_folding_changes_gives_the_text_in_the_editor(text, batches, encoding, data):
    documents = Documents(encoding)
    documents.open(URI, 0, text)
    seen = []
    for version, batch in enumerate(batches, 1):
        documents.change(URI, version, [sent(*change) for change in batch])
        for change in batch:
            text = model_change(text, change, encoding)
        if data.draw(st.booleans()):
            seen.append((documents.snapshot(), text))
        if data.draw(st.booleans()):
            assert documents.text(URI) == text
    assert documents.text(URI) == text
    assert documents.version(URI) == len(batches)
    for snapshot, then in seen:
        assert snapshot[URI] == then, "a snapshot is of its instant"


def test_a_change_can_join_or_split_a_carriage_return_and_a_line_feed():
    documents = Documents("utf-16")
    documents.open(URI, 0, "a\rb\nc")
    documents.change(URI, 1, [sent(((1, 0), (1, 0)), "\n"), sent(((1, 0), (1, 0)), "1")])
    assert documents.text(URI) == "a\r\n1b\nc"
    documents.change(URI, 2, [sent(((1, 1), (1, 2)), "\r"), sent(((2, 0), (2, 0)), "2")])
    assert documents.text(URI) == "a\r\n1\r\n2c"


@given(texts, positions, st.sampled_from(ENCODINGS))
def test_a_position_is_where_the_specification_says(text, position, encoding):
    offset = offset_of(text, position, encoding)
    assert offset == model_offset(text, position, encoding)
    back = position_of(text, offset, encoding)
    assert back <= position
    assert offset_of(text, back, encoding) == offset


@given(texts, texts, st.sampled_from(ENCODINGS))
def test_edits_lead_from_one_text_to_the_other(before, after, encoding):
    edits = text_edits(before, after, encoding)
    assert bool(edits) == (before != after)
    text = before
    for edit in reversed(edits):  # they do not overlap and are in order: the last one first
        place = tuple((edit["range"][end]["line"], edit["range"][end]["character"]) for end in ("start", "end"))
        text = model_change(text, (place, edit["newText"]), encoding)
    assert text == after


@pytest.mark.parametrize(
    ("text", "position", "encoding", "offset"),
    [
        ("ab\ncd", (0, 99), "utf-16", 2),
        ("ab\r\ncd", (0, 99), "utf-16", 2),
        ("ab\rcd", (1, 1), "utf-16", 4),
        ("ab\ncd", (7, 0), "utf-16", 5),
        ("ab\n", (1, 5), "utf-16", 3),
        ("a\U0001f600b", (0, 3), "utf-16", 2),
        ("a\U0001f600b", (0, 2), "utf-16", 1),
        ("a\U0001f600b", (0, 5), "utf-8", 2),
        ("a\U0001f600b", (0, 4), "utf-8", 1),
        ("a\U0001f600b", (0, 2), "utf-32", 2),
        ("a\u2028b\nc", (1, 0), "utf-16", 4),
        ("\ud83dab", (0, 2), "utf-16", 2),
    ],
)
def test_positions(text, position, encoding, offset):
    assert offset_of(text, position, encoding) == offset


def test_uris_of_the_same_path_are_one_document():
    documents = Documents()
    documents.open(URI, 1, "x")
    other = "file://localhost/tmp/./caf%c3%a9.py"
    documents.change(other, 2, [{"text": "y"}])
    assert documents.text("file:///tmp/café.py") == "y"
    assert documents.open_uris() == [URI]
    snapshot = documents.snapshot()
    assert (dict(snapshot), other in snapshot) == ({URI: "y"}, True)
    documents.close(other)
    assert documents.open_uris() == []
    assert documents.text(URI) is None


@pytest.mark.parametrize(
    "uri",
    [
        "file:///tmp/c#.py",
        "file:///tmp/c%23.py",
        "file:///tmp/why?.py",
        "file://localhost/tmp/a b",
        "file:/tmp/%ff",
        "FILE:///tmp/a",
        "file:///tmp/../a",
        "file://other/tmp/a",
        "file://[/tmp/a",
        "http://[",
        "untitled:a",
        "\nfile:///tmp/a",
        "file:///tmp/%00",
        "file:",
    ],
)
def test_a_request_and_a_document_with_the_same_uri_mean_the_same_file(uri):
    try:
        found = str(repository.require_path(uri))
    except UnderstudyError:
        found = None
    assert docs.key_of(uri) == found


def test_special_files_are_not_kept():
    documents = Documents()
    for uri in ("untitled:Untitled-1", "git:/tmp/a", "file://other/tmp/a", "no uri", "http://[", ""):
        documents.open(uri, 1, "x")
        documents.change(uri, 2, [{"text": "y"}])
        documents.save(uri, "z")
        documents.close(uri)
        assert not documents.open_uris()
        assert documents.look(uri) is None


INSERT_AT_START = {"range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}, "text": "y"}


@pytest.mark.parametrize(
    ("version", "given"),
    [
        (5, [INSERT_AT_START]),
        (4, [INSERT_AT_START]),
        (6, None),
        (6, {}),
        (6, "text"),
        (6, [None]),
        (6, [{}]),
        (6, [{"text": 7}]),
        (6, [{"range": {"start": {"line": 0}}, "text": "y"}]),
        (6, [{**INSERT_AT_START, "range": {"start": {"line": 0, "character": 0}}}]),
        (6, [{"range": [], "text": "y"}]),
        (6, [sent(((0, -1), (0, 0)), "y")]),
        (6, [sent(((0, 0.5), (0, 0)), "y")]),
        (6, [sent((("0", 0), (0, 0)), "y")]),
        (6, [sent(((True, 0), (0, 0)), "y")]),
        (6, [INSERT_AT_START, {"text": 7}]),
    ],
)
def test_an_invalid_change_puts_the_document_out_of_sync_until_a_whole_text_arrives(caplog, version, given):
    documents = Documents()
    documents.open(URI, 5, "x")
    before = documents.snapshot()
    with caplog.at_level(logging.WARNING):
        assert not documents.change(URI, version, given)
    assert len(caplog.records) == 1
    assert documents.change(URI, 7, [INSERT_AT_START]) is False, (
        "a valid change does not bring an unknown text back in sync"
    )
    assert documents.out_of_sync(URI)
    assert (documents.look(URI), documents.text(URI), documents.version(URI)) == (None, None, None)
    assert documents.open_uris() == [URI]
    snapshot = documents.snapshot()
    assert list(snapshot) == [URI]
    assert snapshot.get(URI, "nothing") == "nothing"
    with pytest.raises(UnderstudyError) as raised:
        snapshot[URI]
    assert raised.value.kind is ErrorKind.BASE_UNAVAILABLE
    assert before[URI] == "x"
    assert documents.change(URI, 8, [INSERT_AT_START, {"text": "whole"}, INSERT_AT_START])
    assert documents.look(URI) == (8, "ywhole")


def test_opening_again_or_saving_with_text_brings_a_document_back_in_sync():
    documents = Documents()
    documents.open(URI, 5, "x")
    documents.lose(URI, "test")
    documents.open(URI, 1, "again")
    assert documents.look(URI) == (1, "again")
    documents.lose(URI, "test")
    documents.save(URI, None)
    assert documents.text(URI) is None
    documents.save(URI, "saved")
    assert documents.look(URI) == (1, "saved")


def test_a_whole_text_counts_whatever_its_version():
    documents = Documents()
    documents.open(URI, 5, "x")
    assert documents.change(URI, 5, [{"text": "y"}])
    assert documents.look(URI) == (5, "y")


def test_an_unknown_text_is_reported_once_until_it_is_opened_again():
    documents = Documents()
    documents.open(URI, 5, "x")
    assert [documents.first_report(URI) for _ in range(3)] == [True, False, False]
    documents.open(URI, 5, "x")
    assert documents.first_report(URI)
    documents.close(URI)
    assert not documents.first_report(URI)


def test_a_change_of_a_document_that_is_not_open_is_logged_and_ignored(caplog):
    documents = Documents()
    with caplog.at_level(logging.WARNING):
        documents.change("file:///tmp/other", 6, [{"text": "no"}])
        documents.lose("file:///tmp/other", "test")
    assert len(caplog.records) == 1
    assert not documents.open_uris()


def test_a_save_has_its_text_and_reopening_starts_over():
    documents = Documents()
    documents.open(URI, 5, "x")
    documents.change(URI, 6, [sent(((0, 1), (0, 1)), "y")])
    documents.save(URI, None)
    assert documents.text(URI) == "xy"
    documents.save(URI, "saved")
    assert documents.look(URI) == (6, "saved")
    documents.open(URI, 1, "again")
    assert documents.look(URI) == (1, "again")


def test_pending_changes_are_bounded(monkeypatch):
    documents = Documents()
    documents.open(URI, 0, "")
    document = documents._open[docs.key_of(URI)]
    for version in range(1, 3 * docs.MOST_CHANGES):
        documents.change(URI, version, [sent(((0, 0), (0, 0)), "x")])
        assert len(document.changes) <= docs.MOST_CHANGES
    monkeypatch.setattr(docs, "MOST_CHARACTERS", 100)
    documents.change(URI, 10**6, [sent(((0, 0), (0, 0)), "y" * 101)])
    assert not document.changes
    assert document.waiting == 0
    assert documents.text(URI) == "y" * 101 + "x" * (3 * docs.MOST_CHANGES - 1)


def test_a_keystroke_costs_what_it_changes():
    times = {}
    for lines in (10, 200_000):
        documents = Documents()
        documents.open(URI, 0, "some line of code\n" * lines)
        best = 1.0
        for version in range(1, 1000):
            before = time.thread_time()
            documents.change(URI, version, [sent(((lines // 2, 3), (lines // 2, 3)), "x")])
            best = min(best, time.thread_time() - before)
        times[lines] = best
    assert times[200_000] < 20 * times[10]


def test_threads_read_while_the_loop_changes():
    documents = Documents()
    documents.open(URI, 0, "")
    wrong: list[str] = []
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            before, snapshot, after = documents.version(URI), documents.snapshot(), documents.version(URI)
            if not before <= len(snapshot[URI]) <= after:
                wrong.append(f"{before} to {after}: {len(snapshot[URI])}")
            looked = documents.look(URI)
            if looked is None or looked[0] != len(looked[1]):
                wrong.append(str(looked))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for version in range(1, 10_000):
        documents.change(URI, version, [sent(((0, 0), (0, 0)), "x")])
    over.set()
    for reader in readers:
        reader.join()
    assert not wrong[:5]
    assert documents.text(URI) == "x" * 9_999


def test_a_save_is_remembered_with_the_text_that_was_saved(editor, workshop):
    """Another program may write to the file before the message about the save arrives."""
    path = workshop.top / "notes.txt"
    path.write_text("old\n")
    editor.begin(workshop.top)
    uri = editor.open(path)
    editor.change(uri, 2, {"text": "mine\n"})
    path.write_text("mine\nof another program\n")
    editor.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
    editor.ask("understudy/version")
    known = editor_saves.read()
    assert not editor_saves.is_known(path, known)
    path.write_text("mine\n")
    assert editor_saves.is_known(path, known)
