"""The published contract: everything in ``protocol/`` that can be derived is derived here from the method table.

Nothing here answers a request; it only reads declarations (``understudy.api.table``, ``understudy.model``)
and their docstrings, and renders them. ``catalogue`` reads; ``schemas``, ``files``, ``pages`` and ``typescript``
render; ``__main__`` writes (``python -m understudy.api.contract``) or compares (``--check``). The output depends on
the declarations alone: not on the version of Python, the order of imports or the clock.
"""

from __future__ import annotations

from pathlib import Path

from understudy.api.contract import catalogue, files, pages, schemas, typescript


def render(current_page: str) -> dict[str, str]:
    """Return every generated file by its path below ``protocol/``; ``current_page`` is README.md as it is now.

    The prose of the page belongs to people: only what stands between its markers is replaced.
    """
    contract = catalogue.read()
    rendered = {
        "openrpc.json": schemas.openrpc(contract),
        "protocol.gen.ts": typescript.module(contract),
        "README.md": pages.fill(current_page, contract),
    }
    rendered |= {f"schema/{name}.json": text for name, text in schemas.documents(contract).items()}
    rendered |= {f"schema/files/{name}": text for name, text in files.documents().items()}
    return rendered


def stale(folder: Path) -> list[str]:
    """Return what differs in ``folder``, one sentence a file: changed, missing, or no longer generated."""
    fresh = render((folder / "README.md").read_text(encoding="utf-8"))
    found = []
    for name, text in fresh.items():
        path = folder / name
        if not path.exists():
            found.append(f"{name} is missing")
        elif path.read_bytes() != text.encode():
            found.append(f"{name} is not what its declarations say")
    return found + [f"{name} is generated from nothing any more" for name in _schemas(folder) if name not in fresh]


def write(folder: Path) -> list[str]:
    """Write every generated file that differs and remove what is no longer generated; return the names."""
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
    found = sorted((folder / "schema").rglob("*"))
    return [path.relative_to(folder).as_posix() for path in found if not path.is_dir()]
