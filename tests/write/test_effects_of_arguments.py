"""What a verb takes has an effect: an argument that is taken and ignored is found here, whatever verb joins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from deltaberg import (
    ParquetOptions,
    WriteProgress,
    convert_to_delta,
    convert_to_iceberg,
    create_table,
    open_table,
    write_table,
)
from deltaberg.choices import Format
from deltaberg.errors import InvalidArgumentError
from tests.support.verb_table import PLACES, Place
from tests.support.verb_work import SCHEMA, arguments_of_work, at_work, rows, without_zone, worked_table, works_of

pytestmark = pytest.mark.one_backend

#: Verbs that tell nothing of their progress, though they take what others share with them.
_ONLY_METADATA = {
    "delta table count": "without a filter, metadata has the number",
    "iceberg table alter": "the changes of Iceberg tables are changes of metadata",
    "iceberg table count": "without a filter, metadata has the number",
    "iceberg table restore": "a branch moves to an older snapshot",
}
#: Verbs that add a snapshot to a branch that the table has already.
_PICKS = {"cherrypick_snapshot", "publish"}


def _cases(argument: str) -> list[Any]:
    taken = [(place, verb) for place in PLACES for verb in works_of(place, argument)]
    return [
        pytest.param(place, verb, id=f"{place} {verb}") for place, verb in taken if verb not in {"transaction", *_PICKS}
    ]


@pytest.mark.parametrize(("place", "verb"), _cases("progress"))
def test_progress_is_told(tmp_path: Path, place: Place, verb: str) -> None:
    """Whatever takes a progress calls it while it works, and ends with what it raises."""
    told: list[Any] = []
    table = worked_table(tmp_path, place.format)
    if place.in_transaction:
        with table.transaction(progress=told.append) as transaction:
            at_work(transaction, verb)
    else:
        at_work(table, verb, progress=told.append)
    assert bool(told) != (f"{place} {verb}" in _ONLY_METADATA)
    if verb not in ("vacuum", "cleanup_metadata", "expire_snapshots", "remove_orphan_files", "maintain"):
        assert told == sorted(told), "what is told goes back"


#: Verbs that change the table in other ways than by rows that they are given or that match a condition.
_STOPPED = {
    "add_files",
    "alter",
    "compute_statistics",
    "convert_equality_deletes",
    "delete_by_keys",
    "drop_feature",
    "repair",
    "restore",
    "rewrite_manifests",
    "rewrite_position_delete_files",
}
_STOPPABLE = [
    case
    for case in _cases("progress")
    if case.values[1] in _STOPPED and case.id not in _ONLY_METADATA and not case.values[0].in_transaction
]


@pytest.mark.parametrize(("place", "verb"), _STOPPABLE)
def test_an_exception_of_the_receiver_ends_the_verb(tmp_path: Path, place: Place, verb: str) -> None:
    """Nothing is committed by the call that is stopped. A drop of a feature has made commits before."""
    states = []

    def stop(_: Any) -> None:
        newest: Any = open_table(tmp_path / "t")
        states.append(newest.version if place.format == "delta" else newest.metadata_location)
        raise KeyError("stop")

    table = worked_table(tmp_path, place.format)
    with pytest.raises(KeyError, match="stop"):
        at_work(table, verb, progress=stop)
    newest: Any = open_table(tmp_path / "t")
    assert states[-1] == (newest.version if place.format == "delta" else newest.metadata_location)


def test_delete_files_are_written_as_the_caller_says_of_files(tmp_path: Path) -> None:
    """Files in another format than that of data files are written as the table says."""
    for form, codec in (("parquet", "GZIP"), ("avro", None)):
        properties = {"write.delete.format.default": form}
        table = create_table(tmp_path / form, SCHEMA, format="iceberg", properties=properties)
        table.append(rows(0))
        options = ParquetOptions(compression="gzip")
        table.delete("id % 2 = 0", strategy="merge-on-read", writer_properties=options, target_file_size=100)
        (path,) = table.inspect("delete_files")["file_path"].to_pylist()
        assert path.endswith(f"-deletes.{form}")
        if codec is not None:
            assert pq.read_metadata(path).row_group(0).column(0).compression == codec
        assert table.count() == 1500


@pytest.mark.parametrize("convert", [convert_to_delta, convert_to_iceberg])
def test_progress_of_conversions_is_told(tmp_path: Path, convert: Any) -> None:
    """They read the footers of files."""
    for number in range(3):
        pq.write_table(rows(number, 1), tmp_path / f"{number}.parquet")
    told: list[WriteProgress] = []
    assert convert(tmp_path, progress=told.append).committed
    assert [one.files for one in told][:3] == [1, 2, 3]
    assert told[-1].files == 3


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_progress_of_a_write_to_a_new_table_is_told(tmp_path: Path, format: Format) -> None:
    told: list[WriteProgress] = []
    for _ in range(2):
        write_table(tmp_path / "t", rows(0), format=format, mode="append", progress=told.append, memory=9000)
        assert told[-1].rows == 3000
        assert told[-1].files <= 1
        told.clear()
    assert all(pq.read_metadata(path).num_row_groups > 5 for path in (tmp_path / "t").rglob("part-*.parquet"))


@pytest.mark.parametrize("verb", ["convert_equality_deletes", "rewrite_position_delete_files"])
@pytest.mark.parametrize("name", ["target_file_size", "compression", "writer_properties", "memory"])
def test_tables_with_vectors_refuse_what_is_about_delete_files(tmp_path: Path, verb: str, name: str) -> None:
    table = create_table(tmp_path / "t", SCHEMA, format="iceberg", properties={"format-version": "3"})
    says = {"target_file_size": 1 << 20, "compression": "gzip", "writer_properties": ParquetOptions(), "memory": 1}
    with pytest.raises(InvalidArgumentError, match=f"{name} is about delete files") as caught:
        getattr(table, verb)(**{name: says[name]})
    assert str(table.location) in str(caught.value)


#: Verbs that write nothing, and take arguments of files and of rows for what they say of writes and reads.
_ONLY_SAY = {"appends", "changes", "explain_append", "follow", "scan"}


def _worked(folder: Path, place: Place, verb: str, **arguments: Any) -> tuple[Any, Any, list[Path]]:
    """Have a verb do its work; return the table, what the verb returned, and the files that it has written."""
    table = worked_table(folder, place.format)
    before = set(folder.rglob("*.parquet"))
    done = None
    if place.in_transaction:
        with table.transaction() as transaction:
            at_work(transaction, verb, **arguments)
    else:
        done = at_work(table, verb, **arguments)
    new = sorted(path for path in set(folder.rglob("*.parquet")) - before if "_delta_log" not in path.parts)
    return table, done, new


_WRITING = [case for case in _cases("memory") if case.values[1] not in _ONLY_SAY]


@pytest.mark.parametrize(("place", "verb"), _WRITING)
def test_files_are_written_as_asked(tmp_path: Path, place: Place, verb: str) -> None:
    """Sizes, codecs and bounds of memory show in the files."""
    *_, usual = _worked(tmp_path / "usual", place, verb)
    *_, small = _worked(tmp_path / "small", place, verb, target_file_size=2000, compression="gzip")
    *_, bounded = _worked(
        tmp_path / "bounded", place, verb, memory=9000, writer_properties=ParquetOptions(compression="gzip")
    )
    assert len(small) > len(usual) + 3
    for files in (small, bounded):
        assert "GZIP" in {pq.read_metadata(path).row_group(0).column(0).compression for path in files}
    counts = [sum(pq.read_metadata(path).num_row_groups for path in files) for files in (usual, bounded)]
    assert counts[1] > counts[0] + 5


#: A time that is before all rows of the second file in UTC, and behind some of them five hours west of it.
_BOUND = "at < TIMESTAMP '1970-05-06 00:00:00'"
_ZONED = [case for case in _cases("timezone") if case.values[1] not in _ONLY_SAY]


@pytest.mark.parametrize(("place", "verb"), _ZONED)
def test_times_without_a_zone_are_in_the_one_that_is_named(tmp_path: Path, place: Place, verb: str) -> None:
    """They are in conditions, and in the rows of verbs that take rows."""
    takes_rows = "where" not in arguments_of_work(place.kind, verb) or verb == "overwrite"
    zoned: dict[str, Any] = {"data": without_zone(rows(0))} if takes_rows else {"where": _BOUND}
    outcomes = []
    for zone in ("UTC", "Etc/GMT+5"):
        table, done, _ = _worked(tmp_path / zone, place, verb, timezone=zone, **zoned)
        looked_at = getattr(done, "data_files", None), (getattr(done, "metrics", None) or {}).get("numFilesRead")
        outcomes.append((*looked_at, table.to_arrow().sort_by("id").to_pylist(), table.scan().files().num_rows))
    assert outcomes[0] != outcomes[1]
