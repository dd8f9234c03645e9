"""How the data and delete files of an Iceberg table are written, as its properties say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from deltaberg.choices import Codec, PageVersion
from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError
from deltaberg.files.write import FORMS, OrcOptions, ParquetOptions
from deltaberg.iceberg.metadata.column_properties import FILTER_POSITIVES, FILTERED_COLUMNS
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.table.write import RowOptions
from deltaberg.whole_numbers import whole_number

__all__ = ["FORMAT", "DeleteFileOptions", "delete_file_options", "file_options", "form_of", "number_of"]

FORMAT = "write.format.default"
_ROW_GROUP, _DEFAULT_ROW_GROUP = "write.parquet.row-group-size-bytes", 128 << 20
_PAGE_ROWS, _ROW_GROUP_ROWS = "write.parquet.page-row-limit", "write.parquet.row-group-limit"
_PAGE, _DICTIONARY = "write.parquet.page-size-bytes", "write.parquet.dict-size-bytes"
_PAGE_VERSION = "write.parquet.page-version"
_PAGE_VERSIONS: dict[str, PageVersion] = {"v1": "1.0", "v2": "2.0"}
_FILTER_SIZE = "write.parquet.bloom-filter-max-bytes"
_STRIPE, _DEFAULT_STRIPE = "write.orc.stripe-size-bytes", 64 << 20
_STRATEGY, _STRATEGIES = "write.orc.compression-strategy", ("speed", "compression")
_ORC_FILTERED, _ORC_POSITIVES = "write.orc.bloom.filter.columns", "write.orc.bloom.filter.fpp"
_DELETE_FORMAT, _DELETE_TARGET = "write.delete.format.default", "write.delete.target-file-size-bytes"
_DEFAULT_DELETE_TARGET = 64 << 20
#: The codecs of each format, by their names here; the first is the default of the format.
_CODECS: dict[str, tuple[Codec, ...]] = {
    "parquet": ("zstd", "gzip", "snappy", "lz4", "brotli", "none"),
    "orc": ("gzip", "zstd", "snappy", "lz4", "none"),
    "avro": ("gzip", "zstd", "snappy", "none"),
}
_NAMES = {"parquet": "Parquet", "orc": "ORC", "avro": "Avro"}
_SPELLINGS = {"uncompressed": "none", "zlib": "gzip", "deflate": "gzip"}
_PARQUET_SPELLINGS = {"lz4_raw": "lz4"}
#: The codecs that have levels, in each format that has some.
_WITH_LEVELS = {"parquet": ("zstd", "gzip", "brotli"), "avro": ("gzip",)}
#: Sizes are stored in 64 bits with a sign.
_MOST = (1 << 63) - 1


@dataclass(frozen=True)
class DeleteFileOptions:
    """How a table asks for its delete files: their format, how they are written, and the bytes of one."""

    format: str
    options: ParquetOptions
    target_size: int


def delete_file_options(metadata: TableMetadata) -> DeleteFileOptions:
    """Return how a table asks for its delete files. What is not said of them is as for data files.

    Raises
    ------
    InvalidArgumentError
        A property has no valid value.
    UnsupportedFeatureError
        The table asks for files of a format that are not written.
    """
    properties = metadata.properties
    form = form_of(metadata, _DELETE_FORMAT, properties.get(FORMAT, "parquet"))
    prefix = f"write.delete.{form}."
    own = {f"write.{form}.{name.removeprefix(prefix)}": name for name in properties if name.startswith(prefix)}
    said = replace(metadata, properties={**properties, **{name: properties[own[name]] for name in own}})
    try:
        options = file_options(said, form, RowOptions())
    except InvalidArgumentError as error:
        message = error.message
        for name, own_name in own.items():
            message = message.replace(f"the property {name} ", f"the property {own_name} ", 1)
        raise InvalidArgumentError(message, hint=error.hint, **error.context) from None
    return DeleteFileOptions(form, options, number_of(properties, _DELETE_TARGET, _DEFAULT_DELETE_TARGET))


def form_of(metadata: TableMetadata, name: str = FORMAT, default: str = "parquet") -> str:
    """Return the format of files that a property chooses.

    Raises
    ------
    UnsupportedFeatureError
        Files of that format are not written.
    """
    form = metadata.properties.get(name, default).lower()
    if form not in FORMS:
        raise UnsupportedFeatureError(
            f"data files of the format {form!r} are not written, and the property {name} asks for them",
            hint=f"set {name} to {', '.join(FORMS)}",
            table=metadata.location,
            feature=form,
        )
    return form


def file_options(metadata: TableMetadata, form: str, options: RowOptions) -> ParquetOptions:
    """Return how files of a format are written: as the caller says, else as the properties of the table say.

    Raises
    ------
    InvalidArgumentError
        An option or a property is not valid.
    """
    properties, given = metadata.properties, options.writer_properties
    own: ParquetOptions | None = given if isinstance(given, ParquetOptions) else None
    if given is not None and form != "parquet":
        raise InvalidArgumentError(
            f"writer_properties are about Parquet files, and the table has files of the format {form}",
            hint="leave them out",
        )
    if given is not None and own is None:
        raise InvalidArgumentError(
            f"writer_properties is of the type {type(given).__name__}", hint="pass deltaberg.ParquetOptions"
        )
    if options.compression is not None:
        codec, level = _codec(form, "compression", options.compression), None
    elif own is not None:
        return own
    else:
        name = f"write.{form}.compression-codec"
        codec = _codec(form, f"the property {name}", properties.get(name, _CODECS[form][0]))
        level = _level(properties, form, codec)
    if own is not None:
        return replace(own, compression=codec, compression_level=None)
    if form == "parquet":
        return _parquet_options(properties, codec, level)
    return _orc_options(properties, codec) if form == "orc" else ParquetOptions(codec, level)


def _parquet_options(properties: Mapping[str, str], codec: Codec, level: int | None) -> ParquetOptions:
    version = properties.get(_PAGE_VERSION, "v1").strip().lower()
    if version not in _PAGE_VERSIONS:
        raise _wrong(_PAGE_VERSION, version, "v1 or v2")
    return ParquetOptions(
        codec,
        compression_level=level,
        row_group_size=number_of(properties, _ROW_GROUP, _DEFAULT_ROW_GROUP),
        data_page_size=number_of(properties, _PAGE, 1 << 20),
        dictionary_page_size=number_of(properties, _DICTIONARY, 2 << 20),
        row_group_rows=number_of(properties, _ROW_GROUP_ROWS, 1) if _ROW_GROUP_ROWS in properties else None,
        page_rows=number_of(properties, _PAGE_ROWS, 1) if _PAGE_ROWS in properties else None,
        page_version=_PAGE_VERSIONS[version],
        bloom_filters=_filters(properties),
        bloom_filter_size=number_of(properties, _FILTER_SIZE, 1 << 20),
    )


def _orc_options(properties: Mapping[str, str], codec: Codec) -> OrcOptions:
    strategy = properties.get(_STRATEGY, _STRATEGIES[0]).strip().lower()
    if strategy not in _STRATEGIES:
        raise _wrong(_STRATEGY, strategy, " or ".join(_STRATEGIES))
    named = [name.strip() for name in properties.get(_ORC_FILTERED, "").split(",") if name.strip()]
    share = _share(properties, _ORC_POSITIVES, "0.05") if named else 0.0
    return OrcOptions(
        codec,
        row_group_size=number_of(properties, _STRIPE, _DEFAULT_STRIPE),
        bloom_filters=dict.fromkeys(named, share),
        strategy=strategy,
    )


def _filters(properties: Mapping[str, str]) -> dict[str, float]:
    """Return the share of false positives of each column that gets a Bloom filter."""
    columns = [
        name.removeprefix(FILTERED_COLUMNS)
        for name, value in properties.items()
        if name.startswith(FILTERED_COLUMNS) and value.strip().lower() == "true"
    ]
    return {column: _share(properties, FILTER_POSITIVES + column, "0.01") for column in columns}


def _share(properties: Mapping[str, str], name: str, default: str) -> float:
    """Return a share of false positives."""
    text = properties.get(name, default)
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise _wrong(name, text, "a number between 0 and 1")
    return share


def _codec(form: str, what: str, text: str) -> Codec:
    """Return a codec of a format by its name here.

    Parameters
    ----------
    what
        What names the codec.
    """
    found = text.strip().lower()
    named = (_SPELLINGS | (_PARQUET_SPELLINGS if form == "parquet" else {})).get(found, found)
    codec = next((known for known in _CODECS[form] if known == named), None)
    if codec is None:
        raise InvalidArgumentError(
            f"{what} is {text!r:.40}, which is not a codec of {_NAMES[form]} files",
            hint=f"{_NAMES[form]} files are written with {', '.join(_CODECS[form])}",
        )
    return codec


def _level(properties: Mapping[str, str], form: str, codec: str) -> int | None:
    """Return the level of a codec; None for the default. As in Iceberg's library, codecs without levels ignore it."""
    name = f"write.{form}.compression-level"
    text = properties.get(name, "null").strip().lower()
    if text in ("", "null") or codec not in _WITH_LEVELS.get(form, ()):
        return None
    least, most = pa.Codec.minimum_compression_level(codec), pa.Codec.maximum_compression_level(codec)
    if not re.fullmatch("-?[0-9]{1,9}", text) or not least <= int(text) <= most:
        raise _wrong(name, text, f"a whole number of {least} to {most}, the levels of {codec}")
    return int(text)


def number_of(properties: Mapping[str, str], name: str, default: int) -> int:
    """Return the number that a property has as its value.

    Raises
    ------
    InvalidArgumentError
        It is not a positive whole number of 63 bits.
    """
    text = properties.get(name, str(default)).strip()
    number = whole_number(text, 1)
    if number is None or number > _MOST:
        raise _wrong(name, text, "a positive whole number")
    return number


def _wrong(name: str, text: str, wanted: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"the property {name} is {text!r:.40}", hint=f"set it to {wanted}")
