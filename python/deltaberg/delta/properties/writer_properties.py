"""How the Parquet files of a table are written: what the caller asks for, in our words or in those of deltalake.

Objects of deltalake are recognized by their attributes, so that it need not be installed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from deltaberg.choices import Codec
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError
from deltaberg.files.write.write_parquet import ParquetOptions, leaf_columns, main_codec
from deltaberg.hints import at_fault, shown_value
from deltaberg.schema.columns import find_column
from deltaberg.schema.file_schema import file_schema
from deltaberg.table.property_values import number_of

__all__ = ["ROW_GROUP_SIZE", "parquet_options"]

_CODEC = "delta.parquet.compression.codec"
ROW_GROUP_SIZE = "deltaberg.parquet.rowGroupSize"
#: Other names of codecs.
_SPELLINGS = {"uncompressed": "none", "lz4_raw": "lz4"}
#: A codec with its level, as deltalake writes it.
_LEVEL = re.compile(r"([a-z0-9_]+)(?:\(([0-9]{1,9})\))?")
_HINT = "pass deltaberg.ParquetOptions, or WriterProperties of deltalake"


def parquet_options(table: Snapshot, writer_properties: Any = None, compression: str | None = None) -> ParquetOptions:
    """Return how Parquet files of a table are written.

    Parameters
    ----------
    writer_properties
        `ParquetOptions`, whose columns are those of the table with dots for fields of structs; or ``WriterProperties``
        of deltalake; None for what the properties of the table say.
    compression
        The codec of all columns, which goes before ``writer_properties`` and the properties; None for these.

    Raises
    ------
    InvalidArgumentError
        An option is not valid, or the object is of another kind.
    ColumnNotFoundError
        An option names a column that the table lacks.
    UnsupportedFeatureError
        An option of deltalake has nothing that is like it here.
    """
    properties = table.metadata.configuration
    codec = _codec(properties.get(_CODEC, "snappy"))
    size = number_of(properties, ROW_GROUP_SIZE, 0)
    own = ParquetOptions(compression=codec, row_group_size=size) if size else ParquetOptions(compression=codec)
    if writer_properties is None:
        options = own
    elif isinstance(writer_properties, ParquetOptions):
        options = _in_file(table, writer_properties)
    elif all(hasattr(writer_properties, name) for name in ("max_row_group_size", "column_properties", "compression")):
        options = _of_deltalake(table, writer_properties, own)
    else:
        raise InvalidArgumentError(
            at_fault("writer_properties", f"is of the type {type(writer_properties).__name__}"), hint=_HINT
        )
    return options if compression is None else replace(options, compression=_codec(compression), compression_level=None)


def _codec(text: str) -> Codec:
    """Return the codec with a name, which `ParquetOptions` checks."""
    name = text.strip().lower()
    return cast("Codec", _SPELLINGS.get(name, name))


def _in_file(table: Snapshot, options: ParquetOptions) -> ParquetOptions:
    """Return options whose columns are those of Parquet files."""
    codecs, chosen = options.compression, options.dictionary
    if isinstance(codecs, Mapping):
        named = {path: codec for name, codec in codecs.items() if name for path in _paths(table, name)}
        named[""] = main_codec(options)
        options = replace(options, compression=named)
    if isinstance(chosen, Sequence):
        options = replace(options, dictionary=[path for name in chosen for path in _paths(table, name)])
    return options


def _paths(table: Snapshot, name: str) -> list[str]:
    """Return the paths of the Parquet columns that hold a column of the table."""
    place = ".".join(part.physical_name for part in find_column(table.schema, name))
    return [path for path in leaf_columns(file_schema(table.schema)) if path == place or path.startswith(f"{place}.")]


def _of_deltalake(table: Snapshot, writer_properties: Any, own: ParquetOptions) -> ParquetOptions:
    """Return what ``WriterProperties`` of deltalake ask for."""
    for name in ("data_page_row_count_limit", "statistics_truncate_length"):
        _refuse(name, getattr(writer_properties, name, None))
    codec, level = own.compression, None
    if writer_properties.compression is not None:
        match = _LEVEL.fullmatch(str(writer_properties.compression).strip().lower())
        if match is None:
            raise InvalidArgumentError(
                f"{shown_value(writer_properties.compression)} is not a codec", hint="pass one such as ZSTD"
            )
        codec, level = _codec(match[1]), None if match[2] is None else int(match[2])
    return ParquetOptions(
        compression=codec,
        compression_level=level,
        dictionary=_dictionary(table, writer_properties),
        row_group_size=own.row_group_size,
        row_group_rows=writer_properties.max_row_group_size,
        data_page_size=getattr(writer_properties, "data_page_size_limit", None),
        dictionary_page_size=getattr(writer_properties, "dictionary_page_size_limit", None),
        write_batch_size=getattr(writer_properties, "write_batch_size", None),
    )


def _dictionary(table: Snapshot, given: Any) -> bool | list[str] | None:
    """Return which columns are encoded with a dictionary; None if nothing is said of any."""
    columns = dict(given.column_properties or {})
    default = getattr(given, "default_column_properties", None)
    for one in (default, *columns.values()):
        for name in ("bloom_filter_properties", "encoding"):
            _refuse(name, getattr(one, name, None))
    chosen = getattr(default, "dictionary_enabled", None)
    named = {name: one.dictionary_enabled for name, one in columns.items() if one.dictionary_enabled is not None}
    if not named:
        return None if chosen is None else bool(chosen)
    paths = dict.fromkeys(leaf_columns(file_schema(table.schema)), chosen is not False)
    for name, enabled in named.items():
        paths |= dict.fromkeys(_paths(table, name), bool(enabled))
    return [path for path, enabled in paths.items() if enabled]


def _refuse(name: str, value: Any) -> None:
    if value is not None:
        raise UnsupportedFeatureError(
            f"the option {name} of deltalake's WriterProperties has nothing like it here", hint="leave it out"
        )
