"""Write ``review.diff``: the result as a patch to read and edit in any editor."""

from __future__ import annotations

from understudy.git import diff
from understudy.git.object_store import ObjectStore
from understudy.journal import delegation_folder as journal_store


def write_review(folder: journal_store.Folder, objects: ObjectStore, base: str, head: str) -> None:
    """Write or replace ``review.diff``."""
    temporary = folder.review.with_suffix(".tmp")
    temporary.write_bytes(review_text(folder, objects, base, head))
    temporary.chmod(0o600)
    temporary.replace(folder.review)


def review_text(folder: journal_store.Folder, objects: ObjectStore, base: str, head: str) -> bytes:
    """Return the text of ``review.diff``: instructions for the reader, then the patch. Empty if nothing changed.

    Git and patch(1) ignore the lines above the first file.
    """
    patch = diff.unified(objects, base, head)
    title = " ".join(journal_store.read_spec(folder).title.split())
    lines = (f"# {title} ({folder.id})", *_REVIEW_HEAD)
    return b"".join(line.encode("utf-8", "replace") + b"\n" for line in lines) + patch if patch else b""


_REVIEW_HEAD = (
    "# Your editor's code actions on a change below accept it, reject it, or send the work back.",
    '# To say why, write lines that begin with "> " below the change. Such lines here, above the first file,',
    "# are about the whole work, and those right below a line with diff --git are about that file.",
    "",
)
