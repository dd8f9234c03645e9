"""The cases of going back and of shallow clones: tables of many empty data files, which nobody reads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benches.measure import Case, Outcome, Side, names, session, timed, warm
from benches.vacuum_cases import copied_table, table_of_files

__all__ = ["RESTORE_CASES"]

#: The version before a tenth of the files was removed.
_WHOLE = 20

#: Changes the table at a place, or clones it beside it; returns the table that is there then.
_Deed = Callable[[Path], Path]


def _restored(root: Path) -> Path:
    # The files that come back were removed long ago.
    warm()(root).restore(_WHOLE, unsafe_expired=True)
    return root


def _cloned(root: Path) -> Path:
    warm()(root).clone(root.parent / "clone", shallow=True)
    return root.parent / "clone"


def _on_one_machine(deed: _Deed, files: int) -> Side:
    def run(scale: float) -> Outcome:
        with copied_table(table_of_files(files, scale)) as root:
            warm()
            return timed(partial(deed, root), _live)

    return run


def _on_spark(statement: str, files: int) -> Side:
    """Time a statement of delta-spark, after it was carried out for a small table, by which classes are loaded."""

    def run(scale: float) -> Outcome:
        spark = session(engines=True)

        def carry_out(root: Path, version: int) -> Path:
            clone = root.parent / f"clone-of-{root.name}"
            spark.sql(statement.format(table=f"delta.`{root}`", clone=f"delta.`{clone}`", version=version)).collect()
            return clone if "{clone}" in statement else root

        with copied_table(table_of_files(files, scale)) as root:
            for _ in range(2):
                spark.range(10).write.format("delta").mode("append").save(str(root.parent / "small"))
            carry_out(root.parent / "small", 0)
            return timed(partial(carry_out, root, _WHOLE), _live)

    return run


def _live(root: Path) -> list[int]:
    return names(warm()(root).live_files["path"].to_pylist())


def _case(what: str, deed: _Deed, statement: str, files: int = 100_000) -> Case:
    sides: dict[str, Any] = {"deltaberg": _on_one_machine(deed, files), "delta-spark": _on_spark(statement, files)}
    return Case(f"{what} of {files:,} files", partial(table_of_files, files), sides)


RESTORE_CASES: dict[str, Case] = {
    "restore": _case("restore", _restored, "RESTORE TABLE {table} TO VERSION AS OF {version}"),
    "clone-shallow": _case("shallow clone", _cloned, "CREATE TABLE {clone} SHALLOW CLONE {table}"),
}
