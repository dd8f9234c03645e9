"""Writing one data file to a store, a row group at a time, and the form of Parquet files."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from deltaberg.choices import Codec, PageVersion
from deltaberg.errors import DeltabergError, InvalidArgumentError, ObjectNotFoundError, StorageError
from deltaberg.files.write.dictionaries import columns_without_dictionary, holds_negative_zero
from deltaberg.files.write.statistics import StatisticsPlan, StatisticsTaker
from deltaberg.files.write.written import WrittenFile
from deltaberg.files.write.written_footers import FooterFacts, footer_facts, parquet_leaves
from deltaberg.hints import shown_value
from deltaberg.lists import listed
from deltaberg.lossless_json import has_lone_surrogate
from deltaberg.schema.file_schema import StoredType, file_schema, is_stored, to_file
from deltaberg.schema.types import Struct
from deltaberg.signatures import public
from deltaberg.storage.base import OutputFile, Storage

__all__ = ["CODECS", "DataFile", "FileForm", "ParquetOptions", "leaf_columns", "main_codec"]

#: The suffixes that codecs give to names of files.
CODECS: dict[Codec, str] = {
    "snappy": ".snappy",
    "zstd": ".zstd",
    "gzip": ".gz",
    "lz4": ".lz4",
    "brotli": ".br",
    "none": "",
}
_KNOWN = inspect.signature(pq.ParquetWriter.__init__).parameters
#: pyarrow 16 stores decimals as bytes of a fixed length, which all readers know as well.
_STORES_INTEGERS = "store_decimal_as_integer" in _KNOWN

_FLOATS = ("FLOAT", "DOUBLE")


@public
@dataclass(frozen=True)
class ParquetOptions:
    """Options of the Parquet files that are written.

    Parameters
    ----------
    compression
        The codec: snappy, zstd, gzip, lz4, brotli or none. A mapping has codecs by the path of a Parquet column, such
        as ``s.x`` or ``tags.list.element``, and that of other columns under the empty name.
    compression_level
        The level of the codec; None for the default of the codec.
    dictionary
        Whether columns are encoded with a dictionary, or the paths of the columns that are; None for those whose values
        repeat in the first row group of a file, without columns of floating point numbers with a -0.0 in the file.
    row_group_size
        Bytes of a row group in the file, approximately.
    row_group_rows
        Rows of a row group at most; None for no limit.
    data_page_size, dictionary_page_size
        Bytes of a page of values, and of a dictionary, at most; None for what pyarrow chooses.
    write_batch_size
        How many values are encoded at a time; None for what pyarrow chooses.
    page_rows
        Rows of a page at most; None for what pyarrow chooses. Old versions of pyarrow have no limit.
    page_version
        The version of pages: ``1.0`` or ``2.0``.
    bloom_filters
        The share of false positives of the Bloom filter of a column, by its path in the table, such as
        ``tags.element``. Old versions of pyarrow write none.
    bloom_filter_size
        Bytes of a Bloom filter at most.
    """

    compression: Codec | Mapping[str, Codec] = "snappy"
    compression_level: int | None = None
    dictionary: bool | str | Iterable[str] | None = None
    row_group_size: int = 64 << 20
    row_group_rows: int | None = None
    data_page_size: int | None = None
    dictionary_page_size: int | None = None
    write_batch_size: int | None = None
    page_rows: int | None = None
    page_version: PageVersion = "1.0"
    bloom_filters: Mapping[str, float] = field(default_factory=dict)
    bloom_filter_size: int = 1 << 20

    def __post_init__(self) -> None:
        named = {"": self.compression} if isinstance(self.compression, str) else self.compression
        for codec in _by_path("compression", named, "pass a codec, or codecs by the paths of columns").values():
            if not isinstance(codec, str) or codec not in CODECS:
                raise InvalidArgumentError(
                    f"{shown_value(codec)} is not a codec", hint=f"known are {', '.join(CODECS)}"
                )
        object.__setattr__(self, "dictionary", _checked_dictionary(self.dictionary))
        version: object = self.page_version
        if not isinstance(version, str) or version not in get_args(PageVersion):
            raise InvalidArgumentError(f"page_version is {shown_value(version)}", hint="pass 1.0 or 2.0 as text")
        hint = "pass a mapping of paths of columns to numbers between 0 and 1"
        for path, share in _by_path("bloom_filters", self.bloom_filters, hint).items():
            if type(share) not in (int, float) or not 0 < share < 1:
                raise InvalidArgumentError(
                    f"the Bloom filter of {shown_value(path)} has the share {shown_value(share)}", hint=hint
                )
        self._check_numbers()

    def _check_numbers(self) -> None:
        most = 1 << 31
        level = self.compression_level
        if level is not None and (type(level) is not int or not -most < level < most):
            raise InvalidArgumentError(
                f"compression_level is {shown_value(level)}", hint="pass a number that the codec knows, or None"
            )
        for name in ("row_group_size", "bloom_filter_size"):
            if not _is_count(getattr(self, name)):
                raise InvalidArgumentError(
                    f"{name} must be a positive number of bytes, not {shown_value(getattr(self, name))}"
                )
        for name in ("row_group_rows", "data_page_size", "dictionary_page_size", "write_batch_size", "page_rows"):
            value = getattr(self, name)
            if value is not None and not _is_count(value):
                raise InvalidArgumentError(f"{name} is {shown_value(value)}", hint="pass a positive number, or None")


def main_codec(options: ParquetOptions) -> Codec:
    """Return the codec of columns for which no other is named."""
    return options.compression if isinstance(options.compression, str) else options.compression.get("", "snappy")


def _limits(options: ParquetOptions) -> dict[str, int]:
    """Return the limits of pages that are chosen, by the names of pyarrow."""
    chosen = {
        "data_page_size": options.data_page_size,
        "dictionary_pagesize_limit": options.dictionary_page_size,
        "write_batch_size": options.write_batch_size,
        **({"max_rows_per_page": options.page_rows} if "max_rows_per_page" in _KNOWN else {}),
    }
    return {name: value for name, value in chosen.items() if value is not None}


def _filters(options: ParquetOptions, leaves: Mapping[str, str], rows: int) -> dict[str, Any]:
    """Return what pyarrow is told of Bloom filters.

    Parameters
    ----------
    leaves
        The physical types of the Parquet columns by their paths.
    rows
        The rows of the first row group: others have as many distinct values at most, approximately.
    """
    filters = {}
    for path, kind in leaves.items():
        share = options.bloom_filters.get(path.replace(".list.element", ".element").replace(".key_value.", "."))
        if share is not None and kind != "BOOLEAN":
            most = -options.bloom_filter_size * math.log1p(-(share**0.125))
            filters[path] = {"ndv": max(min(rows, int(most)), 1), "fpp": share}
    return {"bloom_filter_options": filters} if filters and "bloom_filter_options" in _KNOWN else {}


def _by_path(name: str, given: object, hint: str) -> Mapping[str, Any]:
    """Refuse what is not a mapping of texts."""
    if not isinstance(given, Mapping) or not all(isinstance(path, str) for path in given):
        raise InvalidArgumentError(f"{name} is {shown_value(given)}", hint=hint)
    return given


def _checked_dictionary(dictionary: Any) -> bool | list[str] | None:
    """Refuse what is neither None, nor a flag, nor the paths of columns."""
    if dictionary is None or isinstance(dictionary, bool):
        return dictionary
    paths = listed(dictionary)
    if isinstance(dictionary, Mapping) or not all(
        isinstance(path, str) and not has_lone_surrogate(path) for path in paths
    ):
        raise InvalidArgumentError(
            f"dictionary is {shown_value(dictionary)}", hint="pass True, False or a list of paths of columns"
        )
    return paths


def _is_count(value: Any) -> bool:
    """Return whether a value is a positive number that pyarrow takes."""
    return type(value) is int and 0 < value < 1 << 63


class FileForm:
    """The common part of all files of one write: their schema, their encoding, and which statistics are taken.

    Parameters
    ----------
    columns
        The columns that files hold.
    options
        How Parquet files are written.
    statistics
        Which statistics are taken.
    required
        Whether fields that are not nullable are required in the file.
    own
        As for `file_schema`.
    numbered_as
        The columns of the table, whose leaves are counted where footers are read; None if they are not.
    """

    #: The name of the format.
    format = "parquet"

    def __init__(
        self,
        columns: Struct,
        options: ParquetOptions,
        statistics: StatisticsPlan,
        *,
        required: bool,
        own: StoredType | None = None,
        numbered_as: Struct | None = None,
    ) -> None:
        self.columns = [child for child in columns if is_stored(child)]
        self.schema = file_schema(columns, required=required, own=own)
        self.options = options
        self.statistics = statistics
        self._numbered_as = numbered_as

    def facts(self, writer: Any) -> FooterFacts:
        """Return what the footer of a file tells whose writer was closed; nothing if footers are not read."""
        if self._numbered_as is None:
            return FooterFacts()
        known = parquet_leaves(self._numbered_as)
        return footer_facts(writer.writer.metadata, [leaf for child in self.columns for leaf in known[child.name]])

    @cached_property
    def _leaves(self) -> dict[str, str]:
        """The physical types of the Parquet columns by their paths."""
        return leaf_columns(self.schema)

    def negative_zeros(self, rows: pa.Table) -> frozenset[str]:
        """Return the names in files of the columns of the table that hold -0.0, if a dictionary would depend on it."""
        if self.options.dictionary is not None:
            return frozenset()
        names = zip(self.columns, self.schema.names, strict=True)
        return frozenset(stored for child, stored in names if holds_negative_zero(rows.column(child.name)))

    def stored(self, rows: pa.Table) -> pa.Table:
        """Return rows of the table as they are in files."""
        batches = []
        for batch in rows.to_batches():
            arrays = [
                to_file(batch.column(child.name), child.type, field)
                for child, field in zip(self.columns, self.schema, strict=True)
            ]
            batches.append(pa.RecordBatch.from_arrays(arrays, schema=self.schema))
        return pa.Table.from_batches(batches, self.schema)

    def writer(self, sink: Any, first: pa.Table, negative_zeros: frozenset[str]) -> Any:
        """Open a writer of this form, for a file that begins with these stored rows."""
        options: dict[str, Any] = {"store_decimal_as_integer": True} if _STORES_INTEGERS else {}
        named, codec = self.options.compression, main_codec(self.options)
        if self.options.compression_level is not None:
            options["compression_level"] = self.options.compression_level
        return pq.ParquetWriter(
            sink,
            self.schema,
            version="2.6",
            compression=codec if isinstance(named, str) else {path: named.get(path, codec) for path in self._leaves},
            use_dictionary=self._dictionary(first, negative_zeros),
            store_schema=False,
            data_page_version=self.options.page_version,
            **_limits(self.options),
            **(_filters(self.options, self._leaves, first.num_rows) if self.options.bloom_filters else {}),
            **options,
        )

    def _dictionary(self, first: pa.Table, negative_zeros: frozenset[str]) -> bool | list[str]:
        """Return the columns that are encoded with a dictionary, as pyarrow takes them."""
        chosen = self.options.dictionary
        if isinstance(chosen, bool):
            return chosen
        if chosen is not None:
            return list(chosen)
        without = columns_without_dictionary(first)
        if negative_zeros:
            without |= {path for path, kind in self._leaves.items() if kind in _FLOATS and _is_in(path, negative_zeros)}
        return [path for path in self._leaves if path not in without] if without else True


class DataFile:
    """A file that is being written. It is used by one thread at a time.

    Parameters
    ----------
    store
        Where the file is written.
    target
        The path of the file in the store.
    path
        The path of the file relative to the table.
    form
        What it has in common with other files.
    partition
        Its partition values.
    """

    def __init__(
        self, store: Storage, target: str, path: str, form: FileForm, partition: Mapping[str, pa.Scalar]
    ) -> None:
        self._store = store
        self._form = form
        self._partition = partition
        self._statistics = StatisticsTaker(form.statistics)
        self._sink: _Sink | None = None
        self._writer: Any = None
        #: The names in the file of the columns that may hold -0.0; settled before the first rows are written.
        self.may_hold_negative_zero: frozenset[str] = frozenset()
        self.target = target
        self.path = path
        #: Whether an object may have been made, which is to be deleted if the file is not needed.
        self.is_begun = False

    def negative_zeros(self, rows: pa.Table) -> frozenset[str]:
        """Return the names in the file of the columns of rows that hold -0.0."""
        return self._form.negative_zeros(rows)

    def write(self, rows: pa.Table) -> int:
        """Write rows of the table as one row group, and return the bytes that it has in the file.

        Raises
        ------
        StorageError
            If the store fails.
        """
        self._statistics.take(rows)
        stored = self._form.stored(rows)
        sink, writer = self._open(stored)
        before = sink.tell()
        try:
            most = self._form.options.row_group_rows or rows.num_rows
            writer.write_table(stored, row_group_size=max(min(most, rows.num_rows), 1))
            sink.check()
        except (pa.ArrowException, OSError) as error:
            raise _failed(error, self.target) from error
        return sink.tell() - before

    def finish(self) -> WrittenFile:
        """Finish the file, and describe it."""
        sink, writer = self._open(_no_rows(self._form.schema))
        try:
            writer.close()
            sink.check()
        except (pa.ArrowException, OSError) as error:
            raise _failed(error, self.target) from error
        facts = self._form.facts(writer)
        sink.output.close()
        self._sink = self._writer = None
        taken = self._statistics
        lower, upper = taken.bounds()
        return WrittenFile(
            self.path,
            sink.tell(),
            taken.record_count,
            time.time_ns() // 1_000_000,
            self._partition,
            lower,
            upper,
            taken.null_count,
            taken.nan_counts(),
            taken.struct_null_count,
            facts,
            self._form.format,
        )

    def abort(self) -> None:
        """Discard the file, if it is not finished."""
        if self._sink is None:
            return
        self._sink.is_aborted = True
        self._sink.output.abort()
        if self._writer is not None and self._writer.is_open:
            # The end of the file goes nowhere. An open writer would write it when it is collected.
            self._writer.close()

    def _open(self, first: pa.Table) -> tuple[_Sink, Any]:
        if self._sink is None:
            self._refuse_taken()
            self.is_begun = True
            self._sink = _Sink(self._store.open_output(self.target))
        if self._writer is None:
            self._writer = self._form.writer(self._sink, first, self.may_hold_negative_zero)
        return self._sink, self._writer

    def _refuse_taken(self) -> None:
        """Refuse a name that an object has: other versions of the table may need it."""
        try:
            self._store.head(self.target)
        except ObjectNotFoundError:
            return
        raise StorageError("a data file of this name exists, and is never overwritten", path=self.target)


class _Sink:
    """The output of a store, as pyarrow writes to it. It is closed or aborted by its owner alone.

    What the store raises is kept for `check`: Arrow's writer of ORC ends the process if a write fails beneath it.
    """

    closed = False

    def __init__(self, output: OutputFile) -> None:
        self.output = output
        self.is_aborted = False
        self._error: BaseException | None = None

    def write(self, data: bytes) -> int:
        if not self.is_aborted and self._error is None:
            try:
                return self.output.write(data)
            except BaseException as error:  # noqa: BLE001 - an interruption may come at any time; check raises it
                self._error = error
        return len(data)

    def check(self) -> None:
        """Raise what the store raised, if it failed."""
        if self._error is not None:
            raise self._error

    def tell(self) -> int:
        return self.output.tell()

    def flush(self) -> None:
        """Do nothing: an output has no use for it."""

    def close(self) -> None:
        """Do nothing: an output is closed by its owner."""


def _failed(error: Exception, path: str) -> DeltabergError:
    if isinstance(error, DeltabergError):
        return error
    return StorageError(f"the data file cannot be written: {error}", path=path)


def _is_in(path: str, columns: frozenset[str]) -> bool:
    """Return whether a Parquet column is one of these columns of the file, or inside it."""
    return any(path == name or path.startswith(f"{name}.") for name in columns)


def leaf_columns(schema: pa.Schema) -> dict[str, str]:
    """Return the physical types of the columns of a Parquet file with this schema, by their paths."""
    sink = pa.BufferOutputStream()
    pq.write_table(_no_rows(schema), sink, store_schema=False)
    parquet = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    leaves = [parquet.column(number) for number in range(len(parquet))]
    return {leaf.path: leaf.physical_type for leaf in leaves}


def _no_rows(schema: pa.Schema) -> pa.Table:
    """Return a table without rows; ``empty_table`` makes none with structs of uuids."""
    return pa.Table.from_arrays([pa.nulls(0, child.type) for child in schema], schema=schema)
