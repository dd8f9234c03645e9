"""The cases of writing manifests, compared with pyiceberg and iceberg-java."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from benches import iceberg_data as data
from benches.iceberg_cases import newest_metadata
from benches.measure import Case, Outcome, Side, await_turn, joined, names, peak_of_processes, session, timed, warm

__all__ = ["WRITTEN_MANIFEST_CASES"]

_SNAPSHOT = 5
#: How often the JVM does the work; the first half is for warming up.
_TIMES = 2
#: Reads what is to be written, and returns the work that is timed.
_Writer = Callable[[Path, Path, bool], Callable[[], object]]


def _source(root: Path) -> Any:
    from deltaberg.table.read.scan import bound_scan

    return bound_scan(warm()(root).scan()).source


def _ours(root: Path, folder: Path, merges: bool) -> Callable[[], object]:
    """Write the entries of each manifest again, or read all manifests and write their entries as one."""
    from deltaberg.iceberg.manifests.fields import WHOLE_ENTRIES
    from deltaberg.iceberg.manifests.merge import merged_entries
    from deltaberg.iceberg.manifests.write_manifest import ManifestHeader, encode_manifest, manifest_row
    from deltaberg.iceberg.partition.structs import partition_struct
    from deltaberg.iceberg.schema.schema import encode_schema
    from deltaberg.lossless_json import write_json

    source = _source(root)
    reader, schema = source.reader, source.metadata.current_schema
    spec = reader.spec_of(source.metadata.default_spec_id)
    partition = partition_struct(spec, reader.schemas)
    header = ManifestHeader(2, 0, write_json(encode_schema(schema)), 0, spec, partition)
    rows = source.manifests.to_pylist()

    def read(rows: list[dict[str, Any]]) -> pa.Table:
        (found,) = reader.read(rows, WHOLE_ENTRIES)
        return found.table

    def write(entries: pa.Table, number: int) -> None:
        path = folder / f"{number}.avro"
        encoded = encode_manifest(entries, header)
        path.write_bytes(encoded)
        manifest_row(entries, header, str(path), len(encoded), snapshot_id=_SNAPSHOT)

    if merges:
        return lambda: write(merged_entries([read(rows)], _SNAPSHOT), 0)
    given = [read([row]) for row in rows]

    def write_all() -> None:
        for number, entries in enumerate(given):
            write(entries, number)

    return write_all


def _theirs(root: Path, folder: Path, merges: bool) -> Callable[[], object]:
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.manifest import ManifestEntry, write_manifest
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(str(newest_metadata(root)))
    files, schema, spec = PyArrowFileIO(), table.schema(), table.spec()
    snapshot = table.current_snapshot()
    manifests = [] if snapshot is None else snapshot.manifests(files)

    def write(entries: list[ManifestEntry], number: int) -> None:
        output = files.new_output(str(folder / f"{number}.avro"))
        with write_manifest(2, spec, schema, output, _SNAPSHOT, "deflate") as writer:
            for entry in entries:
                writer.existing(entry) if merges else writer.add_entry(entry)
        writer.to_manifest_file()

    if merges:
        return lambda: write([entry for found in manifests for entry in found.fetch_manifest_entry(files)], 0)
    given = [manifest.fetch_manifest_entry(files) for manifest in manifests]

    def write_all() -> None:
        for number, entries in enumerate(given):
            write(entries, number)

    return write_all


def _java(root: Path, folder: Path, merges: bool) -> list[float]:
    """Do the same in the JVM of a Spark session, without a call of Python for an entry, and return the seconds."""
    spark = session(engines=True)
    jvm = spark._jvm  # noqa: SLF001 - the library is reached through the driver
    iceberg = jvm.org.apache.iceberg
    tables = iceberg.hadoop.HadoopTables(spark._jsc.hadoopConfiguration())  # noqa: SLF001 - so is its configuration
    if merges:
        # The copy has the metadata only: its manifests are those of the table, and stay there.
        copy = folder / "table"
        (copy / "metadata").mkdir(parents=True)
        newest = newest_metadata(root)
        shutil.copy(newest, copy / "metadata")
        (copy / "metadata" / "version-hint.text").write_text(newest.name.removeprefix("v").partition(".")[0])
        table = tables.load(str(copy))
        table.updateProperties().set("commit.manifest.target-size-bytes", str(1 << 40)).commit()
        one = jvm.com.google.common.base.Functions.constant("one")
        return timed(lambda: table.rewriteManifests().clusterBy(one).commit(), lambda _: None).amounts
    table = tables.load(str(root))
    files, spec = table.io(), table.spec()
    new_list = iceberg.relocated.com.google.common.collect.Lists.newArrayList
    seconds = 0.0
    await_turn()
    # Outside the clock, the entries are read again and again: the JVM has no room for all of them.
    for number, found in enumerate(table.currentSnapshot().dataManifests(files)):
        entries = new_list(iceberg.ManifestFiles.read(found, files, table.specs()).iterator())
        output = files.newOutputFile(str(folder / f"{number}.avro"))
        start = time.perf_counter()
        writer = iceberg.ManifestFiles.write(2, spec, output, _SNAPSHOT)
        writer.addAll(entries)
        writer.close()
        seconds += time.perf_counter() - start
    return [seconds]


def _written(folder: Path, root: Path) -> Any:
    """Describe the files that the written manifests name. Lists of manifests may lie beside these."""
    from deltaberg.iceberg.manifests.fields import ManifestPart
    from deltaberg.iceberg.manifests.manifests import read_manifest
    from deltaberg.iceberg.partition.structs import partition_struct

    source = _source(root)
    partition = partition_struct(source.reader.spec_of(source.metadata.default_spec_id), source.reader.schemas)
    row = {"content": 0, "sequence_number": 1, "added_snapshot_id": _SNAPSHOT, "first_row_id": None}
    paths = sorted(path for path in folder.rglob("*.avro") if not path.name.startswith("snap-"))
    tables = [read_manifest(path.read_bytes(), row, partition, ManifestPart()) for path in paths]
    entries = pa.concat_tables(tables)
    return [names(entries.column("file_path").to_pylist()), entries.column("status").value_counts().to_pylist()]


def _side(writer: _Writer, merges: bool) -> Side:
    def run(scale: float) -> Outcome:
        root = data.manifests(scale)
        with tempfile.TemporaryDirectory() as folder:
            outcome = timed(writer(root, Path(folder), merges), lambda _: None)
            peak = peak_of_processes()
            return Outcome(outcome.amounts, _written(Path(folder), root), peak)

    return run


def _java_side(merges: bool) -> Side:
    def run(scale: float) -> Outcome:
        root, outcomes = data.manifests(scale), []
        for _ in range(_TIMES):
            with tempfile.TemporaryDirectory() as folder:
                amounts, peak = _java(root, Path(folder), merges), peak_of_processes()
                outcomes.append(Outcome(amounts, _written(Path(folder), root), peak))
        whole = joined(outcomes)
        return whole._replace(amounts=whole.amounts[_TIMES // 2 :])

    return run


def _case(title: str, merges: bool) -> Case:
    sides = {
        "deltaberg": _side(_ours, merges),
        "pyiceberg": _side(_theirs, merges),
        "iceberg-java": _java_side(merges),
    }
    return Case(title, data.manifests, sides)


WRITTEN_MANIFEST_CASES: dict[str, Case] = {
    "iceberg-write-manifests": _case("write 100 manifests with 1,000,000 entries, bounds of 7 columns", merges=False),
    "iceberg-merge-manifests": _case("merge them into one", merges=True),
}
