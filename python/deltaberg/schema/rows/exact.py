"""Converting single values to the type of a column, provided that nothing is lost."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.errors import SchemaError, first_line
from deltaberg.hints import shown_value
from deltaberg.schema.arrow import arrow_type
from deltaberg.schema.convert import PER_SECOND, in_unit
from deltaberg.schema.rows.uuids import uuids_of_text
from deltaberg.schema.types import DataType, Decimal, Fixed, Primitive

__all__ = ["accepts", "exact_leaf", "plain", "plain_text"]

_INTEGERS = frozenset({"byte", "short", "integer", "long"})
_ZONED = frozenset({"timestamp", "timestamp_ns"})
_LOCAL = frozenset({"timestamp_ntz", "timestamp_ntz_ns"})
#: A decimal that holds any 64-bit integer.
_WHOLE = pa.decimal128(20, 0)
_UNITS = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}
#: The first second of the year 1, and the last one of the year 9999, since 1970.
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
_MICROS_PER_DAY = 86_400_000_000
_UUID = Primitive("uuid")
#: A zone at the end of a text that has a time.
_OFFSET = r":\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"
#: How pyarrow shows a text that it cannot read.
_UNREAD = re.compile(r"Failed to parse string: '(.*)' as a scalar", re.DOTALL)


def plain(arrow: pa.DataType) -> pa.DataType:
    """Return the type of the values below dictionaries, runs and extension types."""
    while True:
        if isinstance(arrow, pa.BaseExtensionType):
            arrow = arrow.storage_type
        elif pt.is_dictionary(arrow) or pt.is_run_end_encoded(arrow):
            arrow = arrow.value_type
        else:
            return arrow


def plain_text(array: pa.Array) -> pa.Array:
    """Return views of texts and bytes as texts and bytes, of which Arrow can compute everything."""
    if array.type not in (pa.string_view(), pa.binary_view()):
        return array
    target = pa.large_string() if array.type == pa.string_view() else pa.large_binary()
    try:
        return array.cast(target)
    except pa.ArrowNotImplementedError:
        # pyarrow 16 has no computations on views.
        return pa.array(array.to_pylist(), target)


def accepts(arrow: pa.DataType, want: DataType, timezone: str | None) -> str | None:
    """Return why no value of an Arrow type can be stored as a table type, or None if values can be.

    Whether each single value fits is found by `exact_leaf`. The reason is worded as a hint.
    """
    fine = None
    reason = "convert the column first"
    if isinstance(want, Decimal):
        return fine if pt.is_decimal(arrow) or pt.is_integer(arrow) or _is_float(arrow) else reason
    if isinstance(want, Fixed):
        return fine if _is_binary(arrow) else reason
    name = want.name if isinstance(want, Primitive) else ""
    if name in _INTEGERS:
        return fine if pt.is_integer(arrow) or _is_float(arrow) else reason
    if name in ("float", "double"):
        return fine if pt.is_floating(arrow) or pt.is_integer(arrow) else reason
    if name in _ZONED | _LOCAL:
        return _accepts_instant(arrow, name, timezone)
    kinds = {
        "boolean": pt.is_boolean,
        "string": _is_text,
        "binary": _is_binary,
        "uuid": lambda arrow: _is_binary(arrow) or _is_text(arrow),
        "date": lambda arrow: pt.is_date(arrow) or _is_text(arrow) or (pt.is_timestamp(arrow) and arrow.tz is None),
        "time": pt.is_time,
        "void": pt.is_null,
    }
    return fine if name in kinds and kinds[name](arrow) else reason


def _accepts_instant(arrow: pa.DataType, name: str, timezone: str | None) -> str | None:
    if _is_text(arrow):
        return None
    if not pt.is_timestamp(arrow):
        return "convert the column first"
    if name in _LOCAL:
        return None if arrow.tz is None else "remove the zone, since the column holds what a wall clock shows"
    if arrow.tz is None and timezone is None:
        return "pass ⟪timezone=⟫ to say in which zone these timestamps are"
    return None


def _is_float(found: pa.DataType) -> bool:
    return bool(pt.is_float32(found) or pt.is_float64(found))


def _is_text(found: pa.DataType) -> bool:
    return bool(pt.is_string(found) or pt.is_large_string(found) or found == pa.string_view())


def _is_binary(found: pa.DataType) -> bool:
    known = pt.is_binary(found) or pt.is_large_binary(found) or pt.is_fixed_size_binary(found)
    return bool(known or found == pa.binary_view())


def exact_leaf(array: pa.Array, want: DataType, timezone: str | None, allow_truncation: bool) -> pa.Array:
    """Convert values to the Arrow type of a table type.

    Parameters
    ----------
    array
        Values of a type that `accepts` does not refuse.
    want
        The type of the column.
    timezone
        The zone of timestamps without one.
    allow_truncation
        Whether digits below the unit of the column are cut off.

    Raises
    ------
    pyarrow.ArrowInvalid, ValueError
        If a value would change, or is not valid.

    Examples
    --------
    >>> exact_leaf(pa.array([1, 2]), Primitive("byte"), None, False).type
    DataType(int8)
    """
    array = plain_text(array)
    target, source = arrow_type(want), array.type
    if pt.is_date(target) and not pt.is_date(source):
        return _dates(array)
    if pt.is_timestamp(target) and _is_text(source):
        return _instants_of_text(array, target, timezone, allow_truncation)
    if pt.is_timestamp(target):
        return _instant(array, target, timezone, allow_truncation)
    if pt.is_time(source):
        return _time(_in_unit(_as_long(array), source.unit, target.unit, allow_truncation), target)
    if want == _UUID and _is_text(source):
        return _uuids(array)
    if pt.is_floating(target):
        return _number(array, target)
    if pt.is_floating(source):
        return _whole_numbers(array, target) if pt.is_integer(target) else _decimals(array, target)
    if pt.is_decimal(target) and pt.is_integer(source):
        return array.cast(_WHOLE).cast(target)
    exact = array if source == target else _decimals_in(array, target) if pt.is_decimal(source) else array.cast(target)
    if pt.is_string(target):
        # Other libraries hand over text without a check, and files must hold valid UTF-8.
        exact.validate(full=True)
    return exact


def _decimals_in(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return decimals of other digits."""
    try:
        return array.cast(target)
    except pa.ArrowInvalid as error:
        raise SchemaError(
            f"it has more digits than the column keeps: {first_line(error)}",
            hint="round the column first, or widen the column of the table",
        ) from error


def _time(micros: pa.Array, target: pa.DataType) -> pa.Array:
    """Return times of the day. pyarrow checks none, and shows others as times of the next day."""
    ends = pc.min_max(micros)
    for end in (ends["min"].as_py(), ends["max"].as_py()):
        if end is not None and not 0 <= end < _MICROS_PER_DAY:
            raise ValueError(f"{end} microseconds from midnight are not within a day")
    return micros.view(target)


def _number(array: pa.Array, target: pa.DataType) -> pa.Array:
    if array.type == target:
        return array
    numbers = array.cast(target)
    if pt.is_floating(array.type) and array.type.bit_width > target.bit_width:
        back = numbers.cast(array.type)
        same = pc.or_(pc.equal(back, array), pc.and_(pc.is_nan(array), pc.is_nan(back)))
        if not pc.all(same, min_count=0).as_py():
            changed = array.filter(pc.invert(same))[0].as_py()
            hint = "round the column first, as by rows.cast(…) of pyarrow or astype() of pandas, or store doubles"
            raise SchemaError(f"{changed!r} needs more digits than a float has", hint=hint)
    return numbers


def _refuse_first(array: pa.Array, fits: pa.Array, fault: str, hint: str) -> None:
    """Refuse values if one does not fit, which the message shows."""
    if not pc.all(fits, min_count=0).as_py():
        # Python has no times of all years that Arrow has.
        shown = array.filter(pc.invert(fits)).slice(0, 1).cast(pa.string())[0].as_py()
        raise SchemaError(f"{shown:.80} {fault}", hint=hint)


def _refuse_rounded(array: pa.Array) -> None:
    """Refuse floating point numbers so great that the integers they were made of may have been others."""
    most = 1 << (24 if pt.is_float32(array.type) else 53)
    fits = pc.less(pc.abs(array), pa.scalar(float(most), array.type))
    hint = 'read the column as integers: pandas has Int64 for those with a null, or dtype_backend="pyarrow"'
    _refuse_first(array, fits, "may have been rounded when it became a floating point number", hint)


def _whole_numbers(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return floating point numbers as integers: pandas makes doubles of integers where some are null."""
    _refuse_first(
        array,
        pc.and_(pc.is_finite(array), pc.equal(array, pc.floor(array))),
        "is no whole number",
        "round the column first, or fill NaN with null",
    )
    _refuse_rounded(array)
    return array.cast(target)


def _decimals(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return floating point numbers as the decimals that people write for them: 0.1, however many digits there are."""
    hint = "round the column first, as to the digits of the column"
    _refuse_first(array, pc.is_finite(array), "is no decimal", "fill NaN with null")
    _refuse_rounded(array)
    try:
        return array.cast(pa.string()).cast(target)
    except pa.ArrowInvalid as error:
        raise SchemaError(f"a floating point number needs more digits: {first_line(error)}", hint=hint) from error


def _dates(array: pa.Array) -> pa.Array:
    """Return texts such as 2024-01-31, and timestamps at midnight, as dates."""
    if _is_text(array.type):
        return _within_years(array, _read(array, pa.date32(), "is no date", "write it as 2024-01-31"))
    made = array.cast(pa.date32())
    hint = "cut the time off first, as by dt.normalize() of pandas"
    _refuse_first(array, pc.equal(made.cast(array.type), array), "is not at midnight", hint)
    return made


def _read(texts: pa.Array, target: pa.DataType, fault: str, form: str) -> pa.Array:
    """Return what texts say; the message shows the first one of another form, and says what would do."""
    try:
        return texts.cast(target)
    except pa.ArrowInvalid as error:
        known = _UNREAD.search(str(error))
        shown = f"{known[1]:.80}" if known else "a text"
        raise SchemaError(f"{shown!r} {fault}", hint=f"{form}, or convert the column first") from error


def _within_years(texts: pa.Array, moments: pa.Array) -> pa.Array:
    """Return dates or timestamps of texts, in which there is no year 0, nor one of five digits."""
    seconds = moments.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    fits = pc.and_(pc.greater_equal(seconds, _FIRST_SECOND), pc.less_equal(seconds, _LAST_SECOND))
    _refuse_first(texts, fits, "is not within the years 1 to 9999", "correct the text")
    return moments


def _instants_of_text(texts: pa.Array, target: pa.DataType, timezone: str | None, allow_truncation: bool) -> pa.Array:
    """Return texts such as 2024-01-31 12:00:00 as timestamps, for which a zone is in the texts or is passed."""
    texts = _in_digits(texts, target.unit, allow_truncation)
    local = pa.timestamp(target.unit)
    has_zone = pc.match_substring_regex(texts, _OFFSET)
    form = "write it as 2024-01-31 12:00:00"
    if target.tz is None:
        _refuse_first(
            texts, pc.invert(has_zone), "has a zone", "leave it out: the column holds what a wall clock shows"
        )
        return _within_years(texts, _read(texts, local, "is no timestamp", form))
    nothing = pa.scalar(None, texts.type)
    zoned = _read(pc.if_else(has_zone, texts, nothing), target, "is no timestamp", f"{form}Z")
    others = _read(pc.if_else(has_zone, nothing, texts), local, "is no timestamp", f"{form}Z")
    if others.null_count < len(others):
        if timezone is None:
            hint = "pass ⟪timezone=⟫ to say in which zone these timestamps are"
            _refuse_first(texts, pc.fill_null(has_zone, fill_value=True), "has no zone", hint)
        zoned = pc.coalesce(zoned, pc.assume_timezone(others, timezone).cast(target))
    return _within_years(texts, zoned)


def _in_digits(texts: pa.Array, unit: str, allow_truncation: bool) -> pa.Array:
    """Return texts of timestamps without digits below the unit, which Arrow does not read even if they are zeros."""
    kept = rf"(:\d\d\.\d{{{len(str(PER_SECOND[unit])) - 1}}})"
    texts = pc.replace_substring_regex(texts, f"{kept}0+($|[^0-9])", r"\1\2")
    if allow_truncation:
        return pc.replace_substring_regex(texts, rf"{kept}\d+", r"\1")
    fits = pc.invert(pc.match_substring_regex(texts, rf"{kept}\d"))
    _refuse_first(texts, fits, f"has digits below the {_UNITS[unit]}", "pass ⟪allow_truncation=True⟫ to cut them off")
    return texts


def _uuids(texts: pa.Array) -> pa.Array:
    made = uuids_of_text(texts)
    if made.null_count > texts.null_count:
        wrong = texts.filter(pc.and_(made.is_null(), texts.is_valid()))[0].as_py()
        raise ValueError(f"{shown_value(wrong)} is not written like f79c3e09-677c-4bbd-a479-3f349cb785e7")
    return made


def _as_long(array: pa.Array) -> pa.Array:
    return array.view(pa.int32()).cast(pa.int64()) if array.type.bit_width == 32 else array.view(pa.int64())


def _instant(array: pa.Array, target: pa.DataType, timezone: str | None, allow_truncation: bool) -> pa.Array:
    if array.type.tz is None and target.tz is not None:
        array = pc.assume_timezone(array, timezone)
    if array.type.unit == target.unit:
        return array if array.type == target else array.view(target)
    return _in_unit(array.view(pa.int64()), array.type.unit, target.unit, allow_truncation).view(target)


def _in_unit(values: pa.Array, source_unit: str, target_unit: str, allow_truncation: bool) -> pa.Array:
    converted = in_unit(values, source_unit, target_unit)
    divisor = PER_SECOND[source_unit] // PER_SECOND[target_unit]
    if divisor > 1 and not allow_truncation:
        whole = pc.equal(pc.multiply(converted, pa.scalar(divisor, pa.int64())), values)
        if not pc.all(whole, min_count=0).as_py():
            below = f"it has digits below the {_UNITS[target_unit]}"
            raise SchemaError(below, hint="pass ⟪allow_truncation=True⟫ to cut them off")
    return converted
