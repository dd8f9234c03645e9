"""Files are deleted in one place, `table/removal.py`, which asks what they are and where they are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

_PACKAGE = Path(__file__).resolve().parents[2] / "python" / "deltaberg"

#: What deletes files or directories, whatever it is called on.
_DELETERS = frozenset(
    {"delete", "delete_many", "fullyDelete", "remove", "removedirs", "rmdir", "rmtree", "truncate", "unlink"}
)
#: The modules that may, and what they delete.
_ALLOWED = {
    "storage/atomic.py": {"os.unlink"},  # temporary files, by names of their own
    "storage/local.py": {"os.unlink", "self.delete"},  # what the store is asked for
    "storage/probe.py": {"store.delete"},  # the object that the probe has put
    "storage/remote.py": {"obstore.delete", "self.delete"},  # what the store is asked for
    "table/removal.py": {"store.delete_many", "os.rmdir"},  # directories only where they are empty
}
#: Calls of these names that delete rows of tables, statements of SQL, or members of collections in memory.
_OTHERS = {
    "cli/commands/change_rows.py": {"table.delete"},
    "delta/alter/alter.py": {"siblings.remove"},
    "catalogs/sql_catalog.py": {"sa.delete"},
    "iceberg/place.py": {"run.delete"},
    "iceberg/manifests/entries.py": {"found.remove"},
    "iceberg/transaction/production.py": {"self.tally.remove"},
    "kernels/pure/log/reconcile.py": {"keys.remove"},
    "kernels/pure/log/replay.py": {"self._keys.remove"},
    "spark/tables/delta_table.py": {"self._newest().delete"},
    "table/transaction/operations.py": {"self.delete"},
    "table/verbs/verbs.py": {"run.delete"},
}


def _calls(path: Path) -> Iterator[str]:
    """Return what is called or passed on by the name of something that deletes."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Attribute) and node.attr in _DELETERS:
            yield ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and node.module in ("os", "shutil", "obstore"):
            yield from (alias.name for alias in node.names if alias.name in _DELETERS)


@pytest.mark.one_backend
def test_files_are_deleted_in_one_place() -> None:
    deleting: dict[str, set[str]] = {}
    for path in sorted(_PACKAGE.rglob("*.py")):
        calls = set(_calls(path))
        if calls:
            deleting[path.relative_to(_PACKAGE).as_posix()] = calls
    # Delete files by `deltaberg.table.removal`. What deletes no files belongs in the second list.
    assert deleting == {name: _ALLOWED.get(name, set()) | _OTHERS.get(name, set()) for name in {**_ALLOWED, **_OTHERS}}
