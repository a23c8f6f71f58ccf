"""Generate the published contract in ``protocol/`` from the method table.

``catalogue`` reads the declarations in ``understudy.api.method_table`` and ``understudy.model`` with their docstrings.
``json_schema``, ``readme_tables`` and ``typescript`` render them. ``__main__`` writes the files
(``python -m understudy.api.contract``) or compares them (``--check``). The output depends only on the declarations,
not on the version of Python, the order of imports or the clock.
"""

from __future__ import annotations

from pathlib import Path

from understudy.api.contract import catalogue, json_schema, readme_tables, typescript
from understudy.config.locations import FileKind, schema_name
from understudy.config.reference import fields


def render(current_page: str) -> dict[str, str]:
    """Return the text of every generated file, by its path below ``protocol/``.

    ``current_page`` is the current README.md: only the parts between its markers are replaced.
    """
    contract = catalogue.read()
    rendered = {
        "openrpc.json": json_schema.openrpc(contract),
        "protocol.gen.ts": typescript.module(contract),
        "README.md": readme_tables.fill(current_page, contract),
    }
    rendered |= {f"schema/{name}.json": text for name, text in json_schema.documents(contract).items()}
    rendered |= {f"schema/files/{schema_name(kind)}": fields.schema_document(kind) for kind in FileKind}
    return rendered


def stale(folder: Path) -> list[str]:
    """Return how ``folder`` differs from the declarations, one line per changed, missing or obsolete file."""
    fresh = render((folder / "README.md").read_text(encoding="utf-8"))
    differences = []
    for name, text in fresh.items():
        path = folder / name
        if not path.exists():
            differences.append(f"{name} is missing")
        elif path.read_bytes() != text.encode():
            differences.append(f"{name} is out of date")
    return differences + [f"{name} is no longer generated" for name in _schemas(folder) if name not in fresh]


def write(folder: Path) -> list[str]:
    """Write every generated file that differs and remove obsolete ones; return the names of both."""
    fresh = render((folder / "README.md").read_text(encoding="utf-8"))
    changed = []
    (folder / "schema" / "files").mkdir(parents=True, exist_ok=True)
    for name, text in fresh.items():
        path = folder / name
        if not path.exists() or path.read_bytes() != text.encode():
            path.write_bytes(text.encode())
            changed.append(name)
    for name in _schemas(folder):
        if name not in fresh:
            (folder / name).unlink()
            changed.append(name)
    return changed


def _schemas(folder: Path) -> list[str]:
    """Return every file below ``schema``, as ``render`` names them."""
    paths = sorted((folder / "schema").rglob("*"))
    return [path.relative_to(folder).as_posix() for path in paths if not path.is_dir()]
