"""The forms of ORC and Avro files (Iceberg spec, Appendix A)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyarrow import orc

from deltaberg.errors import SchemaError
from deltaberg.files.avro.encode import UUID, AvroBlocks
from deltaberg.files.write.write_parquet import FileForm, ParquetOptions, main_codec
from deltaberg.files.write.written_footers import FooterFacts
from deltaberg.schema.arrow import with_children
from deltaberg.schema.name_mapping import FIELD_ID

__all__ = ["FORMS", "AvroForm", "OrcForm", "OrcOptions"]

_ORC_CODECS = {"gzip": "zlib", "none": "uncompressed"}
#: Readers of ORC count instants in nanoseconds of 64 bits: these are the most microseconds before and after 1970.
_MOST_MICROS = (1 << 63) // 1000 - 1

#: Values of a timestamp in a second. Arrow writes what is left of a second before 1970 as negative nanoseconds, which
#: other readers, all of Java's among them, take for an instant of another second.
_IN_A_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


@dataclass(frozen=True)
class OrcOptions(ParquetOptions):
    """Options of the ORC files that are written. Row groups are stripes; pages and dictionaries are as pyarrow chooses.

    Parameters
    ----------
    strategy
        What the codec is to save: ``speed`` for time, ``compression`` for bytes.
    """

    strategy: str = "speed"


class _OtherForm(FileForm):
    """A form without dictionaries, and without a footer that is read."""

    def negative_zeros(self, rows: pa.Table) -> frozenset[str]:
        """Return nothing: there are no dictionaries that zeros could share."""
        return frozenset()

    def facts(self, writer: Any) -> FooterFacts:
        """Return nothing: footers are not read."""
        return FooterFacts()


class OrcForm(_OtherForm):
    """The form of ORC files. Ids and types are attributes of ORC types."""

    format = "orc"

    def writer(self, sink: Any, first: pa.Table, negative_zeros: frozenset[str]) -> Any:
        """Open a writer of this form."""
        return _OrcWriter(sink, pa.schema([_orc_field(child) for child in self.schema]), self.options)


class _OrcWriter:
    def __init__(self, sink: Any, schema: pa.Schema, options: ParquetOptions) -> None:
        codec, filters = main_codec(options), options.bloom_filters
        numbers = {name: number for number, name in enumerate(_orc_columns("", schema), start=1)}
        filtered = {numbers[name]: share for name, share in filters.items() if name in numbers}
        self._schema = schema
        self._writer = orc.ORCWriter(
            pa.PythonFile(sink, "w"),
            compression=_ORC_CODECS.get(codec, codec),
            stripe_size=options.row_group_size,
            compression_strategy=options.strategy if isinstance(options, OrcOptions) else "speed",
            **(
                {"bloom_filter_columns": list(filtered), "bloom_filter_fpp": min(filtered.values())} if filtered else {}
            ),
        )
        self._is_empty = True
        self.is_open = True

    def write_table(self, rows: pa.Table, row_group_size: int) -> None:
        for column in rows.columns:
            for chunk in column.chunks:
                _check_instants(chunk)
        stored = rows.cast(self._schema)
        for at, column in enumerate(stored.columns):
            if pt.is_nested(column.type):
                # Of a slice of structs, pyarrow would write the fields of the first rows.
                whole = pa.chunked_array([pa.concat_arrays([chunk]) for chunk in column.chunks], column.type)
                stored = stored.set_column(at, self._schema.field(at), whole)
        self._writer.write(stored)
        self._is_empty = False

    def close(self) -> None:
        if self._is_empty:
            self._writer.write(self._schema.empty_table())
        self.is_open = False
        self._writer.close()


def _orc_columns(above: str, children: Iterable[pa.Field]) -> Iterator[str]:
    """Yield the paths of ORC columns in the order of their numbers, which begin with 1."""
    for child in children:
        yield f"{above}{child.name}"
        kind = child.type
        names = {"key": kind.key_field, "value": kind.item_field} if pt.is_map(kind) else {}
        if pt.is_list(kind):
            names = {"element": kind.value_field}
        inner = [part.with_name(name) for name, part in names.items()] or (list(kind) if pt.is_struct(kind) else [])
        yield from _orc_columns(f"{above}{child.name}.", inner)


def _orc_field(child: pa.Field) -> pa.Field:
    """Return a field in a type that ORC has, with what Iceberg says of it as attributes."""
    kind = child.type.storage_type if isinstance(child.type, pa.BaseExtensionType) else child.type
    attributes = {b"iceberg.required": b"false" if child.nullable else b"true"}
    number = (child.metadata or {}).get(FIELD_ID)
    if number is not None:
        attributes[b"iceberg.id"] = number
    if isinstance(child.type, pa.BaseExtensionType):
        attributes[b"iceberg.binary-type"] = b"UUID"
        kind = pa.binary()
    elif pt.is_fixed_size_binary(kind):
        attributes |= {b"iceberg.binary-type": b"FIXED", b"iceberg.length": str(kind.byte_width).encode()}
        kind = pa.binary()
    elif pt.is_time(kind):
        attributes[b"iceberg.long-type"] = b"TIME"
        kind = pa.int64()
    return pa.field(child.name, with_children(kind, _orc_field), child.nullable, attributes)


def _check_instants(array: pa.Array) -> None:
    """Refuse timestamps that many readers of ORC files cannot hold."""
    kind = array.type
    if pt.is_timestamp(kind):
        values = array.view(pa.int64())
        found = pc.min_max(values)
        least, most = found["min"].as_py(), found["max"].as_py()
        if least is None:
            return
        if kind.unit != "ns" and (least < -_MOST_MICROS or most > _MOST_MICROS):
            raise _unwritable("a timestamp is before 1677 or after 2262, which many readers of ORC files cannot hold")
        if least < 0 and _have_fractions(values.filter(pc.less(values, 0)), _IN_A_SECOND[kind.unit]):
            raise _unwritable("a timestamp before 1970 has a fraction of a second, which readers of ORC files misread")
    elif pt.is_struct(kind):
        for inner in array.flatten():
            _check_instants(inner)
    elif pt.is_map(kind):
        _check_instants(array.keys)
        _check_instants(array.items)
    elif pt.is_list(kind):
        _check_instants(array.flatten())


def _have_fractions(values: pa.Int64Array, whole: int) -> bool:
    """Return whether one of the values is not a multiple of a number."""
    multiples = pc.multiply(pc.divide(values, whole), whole)
    return bool(pc.any(pc.not_equal(multiples, values), min_count=0).as_py())


def _unwritable(what: str) -> SchemaError:
    return SchemaError(
        what, hint="set the property write.format.default to parquet: new files are Parquet then, beside those of ORC"
    )


class AvroForm(_OtherForm):
    """The form of Avro files, whose schema has the ids."""

    format = "avro"

    def writer(self, sink: Any, first: pa.Table, negative_zeros: frozenset[str]) -> Any:
        """Open a writer of this form."""
        schema = pa.schema([_avro_field(child) for child in self.schema])
        return _AvroWriter(sink, schema, main_codec(self.options), self.options.compression_level)


class _AvroWriter:
    def __init__(self, sink: Any, schema: pa.Schema, codec: str, level: int | None) -> None:
        self._sink = sink
        self._schema = schema
        self._blocks = AvroBlocks(
            schema, name="table", codec=codec, level=level if codec == "gzip" else None, threads=1
        )
        self._is_empty = True
        self.is_open = True

    def write_table(self, rows: pa.Table, row_group_size: int) -> None:
        self._sink.write(self._blocks.of(rows.cast(self._schema)))
        self._is_empty = False

    def close(self) -> None:
        self.is_open = False
        if self._is_empty:
            self._sink.write(self._blocks.of(self._schema.empty_table()))


def _avro_field(child: pa.Field) -> pa.Field:
    """Return a field without extension types; what they mean is in its metadata."""
    kind = child.type
    if isinstance(kind, pa.BaseExtensionType):
        return pa.field(child.name, kind.storage_type, child.nullable, {**(child.metadata or {}), **UUID})
    return child.with_type(with_children(kind, _avro_field))


#: The form of the files of each format.
FORMS: dict[str, type[FileForm]] = {form.format: form for form in (FileForm, OrcForm, AvroForm)}
