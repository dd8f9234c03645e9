"""How the data and delete files of an Iceberg table are written, as its properties say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from deltaberg.choices import Codec, PageVersion
from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError
from deltaberg.files.write.forms import FORMS, OrcOptions
from deltaberg.files.write.write_parquet import ParquetOptions
from deltaberg.hints import Hint, at_fault
from deltaberg.iceberg.metadata.metadata import TableMetadata
from deltaberg.iceberg.metadata.property_values import choice_of, codec_of, compression_of
from deltaberg.iceberg.updates.column_properties import FILTER_POSITIVES, FILTERED_COLUMNS
from deltaberg.table.property_values import number_of, wrong_value
from deltaberg.table.rows.row_options import RowOptions

__all__ = ["FORMAT", "DeleteFileOptions", "delete_file_options", "delete_form", "file_options", "form_of"]

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


@dataclass(frozen=True)
class DeleteFileOptions:
    """How delete files are written: their format, its options, the bytes of one, and those that wait to be written."""

    format: str
    options: ParquetOptions
    target_size: int
    memory: int


def delete_form(metadata: TableMetadata) -> str:
    """Return the format of delete files.

    Raises
    ------
    UnsupportedFeatureError
        Files of that format are not written.
    """
    return form_of(metadata, _DELETE_FORMAT, metadata.properties.get(FORMAT, "parquet"))


def delete_file_options(metadata: TableMetadata, asked: RowOptions | None = None) -> DeleteFileOptions:
    """Return how delete files are written: as the caller says, else as the table says of them or of data files.

    Raises
    ------
    InvalidArgumentError
        A property has no valid value.
    UnsupportedFeatureError
        The table asks for files of a format that are not written.
    """
    properties = metadata.properties
    form, asked = delete_form(metadata), asked or RowOptions()
    prefix = f"write.delete.{form}."
    own = {f"write.{form}.{name.removeprefix(prefix)}": name for name in properties if name.startswith(prefix)}
    said = replace(metadata, properties={**properties, **{name: properties[own[name]] for name in own}})
    try:
        options = file_options(said, form, asked)
    except InvalidArgumentError as error:
        message = error.message
        for name, own_name in own.items():
            message = message.replace(f"the property {name} ", f"the property {own_name} ", 1)
        facts = {key: own.get(str(fact), fact) for key, fact in error.context.items()}
        raise InvalidArgumentError(message, hint=error.hint, **facts) from None
    size = asked.target_file_size or number_of(properties, _DELETE_TARGET, _DEFAULT_DELETE_TARGET)
    return DeleteFileOptions(form, options, size, asked.waiting)


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
    properties, writer_properties = metadata.properties, options.writer_properties
    own: ParquetOptions | None = writer_properties if isinstance(writer_properties, ParquetOptions) else None
    if writer_properties is not None and form != "parquet":
        raise InvalidArgumentError(
            Hint(f"⟪writer_properties⟫ are about Parquet files, and the table has files of the format {form}"),
            hint="leave them out",
        )
    if writer_properties is not None and own is None:
        raise InvalidArgumentError(
            at_fault("writer_properties", f"is of the type {type(writer_properties).__name__}"),
            hint="pass deltaberg.ParquetOptions",
        )
    if options.compression is not None:
        codec, level = codec_of(form, "compression", options.compression), None
    elif own is not None:
        return own
    else:
        codec, level = compression_of(properties, form)
    if own is not None:
        return replace(own, compression=codec, compression_level=None)
    if form == "parquet":
        return _parquet_options(properties, codec, level)
    return _orc_options(properties, codec) if form == "orc" else ParquetOptions(codec, level)


def _parquet_options(properties: Mapping[str, str], codec: Codec, level: int | None) -> ParquetOptions:
    return ParquetOptions(
        codec,
        compression_level=level,
        row_group_size=number_of(properties, _ROW_GROUP, _DEFAULT_ROW_GROUP),
        data_page_size=number_of(properties, _PAGE, 1 << 20),
        dictionary_page_size=number_of(properties, _DICTIONARY, 2 << 20),
        row_group_rows=number_of(properties, _ROW_GROUP_ROWS, 1) if _ROW_GROUP_ROWS in properties else None,
        page_rows=number_of(properties, _PAGE_ROWS, 1) if _PAGE_ROWS in properties else None,
        page_version=_PAGE_VERSIONS[choice_of(properties, _PAGE_VERSION, tuple(_PAGE_VERSIONS))],
        bloom_filters=_filters(properties),
        bloom_filter_size=number_of(properties, _FILTER_SIZE, 1 << 20),
    )


def _orc_options(properties: Mapping[str, str], codec: Codec) -> OrcOptions:
    named = [name.strip() for name in properties.get(_ORC_FILTERED, "").split(",") if name.strip()]
    share = _share(properties, _ORC_POSITIVES, "0.05") if named else 0.0
    return OrcOptions(
        codec,
        row_group_size=number_of(properties, _STRIPE, _DEFAULT_STRIPE),
        bloom_filters=dict.fromkeys(named, share),
        strategy=choice_of(properties, _STRATEGY, _STRATEGIES),
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
        raise wrong_value(name, text, "a number between 0 and 1")
    return share
