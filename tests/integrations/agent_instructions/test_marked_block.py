"""Test that Understudy's block changes no byte that the user wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.integrations.agent_instructions import instruction_files

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
    inserted = instruction_files.insert_block(before, BODY)
    assert inserted.startswith(before)
    block = instruction_files.find_block(inserted)
    assert (block.body, block.edited) == (BODY, False)
    assert instruction_files.insert_block(inserted, BODY) == inserted
    assert instruction_files.remove_block(instruction_files.insert_block(inserted, "Other.\n")) == before
    assert instruction_files.remove_block(inserted) == before


@given(files, st.sampled_from([b"below\n", b"below", b"\n"]))
def test_what_is_written_below_stays_on_its_own_line(content, below):
    inserted = instruction_files.insert_block(content, BODY) + below
    removed = instruction_files.remove_block(inserted)
    assert removed.startswith(content)
    assert removed.endswith(below)
    if content and not content.endswith(b"\n"):
        assert removed != content + below
    again = instruction_files.insert_block(inserted, "Other.\n")
    assert again.startswith(content)
    assert again.endswith(below)


def test_line_ends_are_those_of_the_file():
    inserted = instruction_files.insert_block(b"# Mine\r\ntext\r\n", BODY)
    assert inserted.count(b"\n") == inserted.count(b"\r\n")
    assert instruction_files.find_block(inserted).body == BODY
    assert instruction_files.find_block(inserted.replace(b"\r\n", b"\n")).edited is False


def test_an_edit_inside_is_noticed():
    inserted = instruction_files.insert_block(b"mine\n", BODY)
    assert instruction_files.find_block(inserted.replace(b"Text", b"My text")).edited
    whole = instruction_files.whole_file(BODY, 2)
    found = instruction_files.find_file(whole)
    assert (found.body, found.made, found.edited) == (BODY, 2, False)
    assert instruction_files.find_file(b"x" + whole).edited
    assert instruction_files.find_file(b"mine\n") is None


def test_a_file_that_was_made_for_the_block_goes_with_it():
    made = instruction_files.insert_block(None, BODY, 3)
    assert instruction_files.find_block(made).made == 3
    assert instruction_files.remove_block(instruction_files.insert_block(made, "Other.\n")) is None
    assert instruction_files.remove_block(made + b"mine\n") == b"mine\n"
    assert instruction_files.remove_block(instruction_files.insert_block(b"", BODY)) == b""


@pytest.mark.parametrize("kept", [b"", b"\n", b"\n\n"])
def test_line_breaks_that_the_user_removed_are_not_missed(kept):
    inserted = instruction_files.insert_block(b"mine", BODY).replace(b"mine\n\n", b"mine" + kept)
    assert instruction_files.remove_block(inserted) == b"mine"
