"""Test that Understudy's block changes no byte that the user wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.integrations.agent_instructions import marked_block

BODY = "## Delegating\n\nText ä.\n"
PARTS = st.sampled_from(
    [
        b"# Mine\n",
        b"text",
        b"\n",
        b"\r\n",
        b"\xff\xfe\x00",
        b"\xef\xbb\xbf",
        b"<!-- understudy:begin v1 0123456789ab added=1 -->\n",
        b"<!-- understudy:begin v1 -->\n",
        b"<!-- understudy:file v1 0123456789ab -->",
    ]
)
files = st.lists(PARTS, max_size=8).map(b"".join)
ENDS = st.sampled_from([b"", b"<!-- understudy:end -->\n", b"<!-- understudy:end -->"])


@given(ENDS, files)
def test_inserting_and_removing_is_the_identity(end, content):
    before = end + content  # an end without a begin
    inserted = marked_block.insert(before, BODY)
    assert inserted.startswith(before)
    block = marked_block.find(inserted)
    assert (block.body, block.edited) == (BODY, False)
    assert marked_block.insert(inserted, BODY) == inserted
    assert marked_block.remove(marked_block.insert(inserted, "Other.\n")) == before
    assert marked_block.remove(inserted) == before


@given(files, st.sampled_from([b"below\n", b"below", b"\n"]))
def test_what_is_written_below_stays_on_its_own_line(content, below):
    inserted = marked_block.insert(content, BODY) + below
    removed = marked_block.remove(inserted)
    assert removed.startswith(content)
    assert removed.endswith(below)
    if content and not content.endswith(b"\n"):
        assert removed != content + below
    again = marked_block.insert(inserted, "Other.\n")
    assert again.startswith(content)
    assert again.endswith(below)


def test_line_ends_are_those_of_the_file():
    inserted = marked_block.insert(b"# Mine\r\ntext\r\n", BODY)
    assert inserted.count(b"\n") == inserted.count(b"\r\n")
    assert marked_block.find(inserted).body == BODY
    assert marked_block.find(inserted.replace(b"\r\n", b"\n")).edited is False


def test_an_edit_inside_is_noticed():
    inserted = marked_block.insert(b"mine\n", BODY)
    assert marked_block.find(inserted.replace(b"Text", b"My text")).edited
    whole = marked_block.whole_file(BODY, 2)
    found = marked_block.find_file(whole)
    assert (found.body, found.made, found.edited) == (BODY, 2, False)
    assert marked_block.find_file(b"x" + whole).edited
    assert marked_block.find_file(b"mine\n") is None


def test_a_file_that_was_made_for_the_block_goes_with_it():
    made = marked_block.insert(None, BODY, 3)
    assert marked_block.find(made).made == 3
    assert marked_block.remove(marked_block.insert(made, "Other.\n")) is None
    assert marked_block.remove(made + b"mine\n") == b"mine\n"
    assert marked_block.remove(marked_block.insert(b"", BODY)) == b""


@pytest.mark.parametrize("kept", [b"", b"\n", b"\n\n"])
def test_line_breaks_that_the_user_removed_are_not_missed(kept):
    inserted = marked_block.insert(b"mine", BODY).replace(b"mine\n\n", b"mine" + kept)
    assert marked_block.remove(inserted) == b"mine"
