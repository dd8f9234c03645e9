"""Random typed expressions in Spark's SQL, and rows of extremes to evaluate them on."""

from __future__ import annotations

import math
import random
from decimal import Decimal as PyDecimal
from typing import Any

import pyarrow as pa

from deltaberg.schema.arrow import arrow_schema
from deltaberg.schema.types import DataType, Decimal, Field, List, Map, Primitive, Struct

__all__ = ["SCHEMA", "Expressions", "random_rows"]

_NAMES = ("boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary", "date")
_PLAIN: dict[str, DataType] = {
    "bo": Primitive("boolean"),
    "by": Primitive("byte"),
    "sh": Primitive("short"),
    "i": Primitive("integer"),
    "j": Primitive("integer"),
    "l": Primitive("long"),
    "f": Primitive("float"),
    "d": Primitive("double"),
    "e": Primitive("double"),
    "s": Primitive("string"),
    "n": Primitive("string"),
    "bi": Primitive("binary"),
    "da": Primitive("date"),
    "ts": Primitive("timestamp"),
    "tn": Primitive("timestamp_ntz"),
    "m": Decimal(10, 2),
    "p": Decimal(38, 18),
    "q": Decimal(38, 0),
    "ai": List(Field("element", Primitive("integer"))),
    "st": Struct((Field("x", Primitive("long")), Field("y", Primitive("string")))),
    "ma": Map(Field("key", Primitive("string"), nullable=False), Field("value", Primitive("integer"))),
}
#: The columns of the rows.
SCHEMA = Struct(tuple(Field(name, kind) for name, kind in _PLAIN.items()))
_BITS = {"byte": 7, "short": 15, "integer": 31, "long": 63}
_TEXTS = [
    "", " ", "a", "A", "abc", "Abc ", "  x\t", "ß", "İ", "ǆ", "ΑΣ", "😀", "a😀b", "é", "e\u0301", "\x00", "a\nb",
    "a\r\n",
    "%", "_", "a%b_c\\", "'", '"', "null", "true", "FALSE", " yes ", "0", "1", "-1", "+7", " 12 ", "1.5", ".5", "5.",
    "1e3",
    "1E-3", "-0", "1e400", "NaN", "nan", "Infinity", "-inf", "+Inf", "127", "128", "32768", "2147483648", "1d",
    "0x1p3",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "123456789012345678901234567890123456789",
    "2020-01-01", "2020-1-1", "2020-02-30", "1582-10-10", "0001-01-01", "0000-01-01", "-0044-03-15", "+10000-01-01",
    "2020-01-01 12:34:56", "2020-01-01T12:34:56.123456789", "2020-01-01 12:34:56 UTC", "2020-01-01 12:34:56+05:30",
    "2020-01-01 12", "2020-01-01 12:3", "2020-01-01 1:2:3.4Z", "2020-01-01 24:00:00", "2020-03-08 02:30:00", "2020",
    "2020-05", "12:34", "2020-01-01 12:34:56 America/Los_Angeles", "2020-01-01abc", "a,b,,c,", "aXbXc", "foo bar",
]  # fmt: skip
_DOUBLES = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.1, 2.675, 1e-7, 1e15, 1e17, -1e19, 9.223372036854775e18,
    2147483647.5,
    -2147483648.9, 127.9, 1e300, -1e300, 5e-324, math.pi, 123456.789, math.inf, -math.inf, math.nan,
    9007199254740993.0,
]  # fmt: skip
_DAYS = [
    0,
    -1,
    18262,
    18321,
    18690,
    -141428,
    -141427,
    -719162,
    -719163,
    -719529,
    -735000,
    2932896,
    2932897,
    2932898,
    10957,
]
_EXTREME_DAYS = [-106751991, 106751991, 2147483000, -2147483000, 11000001]
_MICROS = [
    0, -1, 1577882096000007, 1583652600000000, 1604210400000000, 1604214000000000, -12219292800000000,
    -62135596800000000,
    253402300799999999, 253402300800000000, 4102444800000000, 4118000000000000, -2208988800000001, -5000000000000000,
]  # fmt: skip
_EXTREME_MICROS = [9223372036854775807 - 200_000_000_000, -9223372036854775808 + 200_000_000_000]


def _integer(rng: random.Random, bits: int) -> int:
    edge = 1 << bits
    return rng.choice(
        [0, 1, -1, 2, 3, 7, -8, 10, 100, -128, 127, edge - 1, -edge, edge - 2, edge // 2, rng.randrange(-edge, edge)]
    )


def _decimal(rng: random.Random, kind: Decimal) -> PyDecimal:
    most = 10**kind.precision - 1
    steps = rng.choice(
        [
            0,
            1,
            -1,
            5,
            15,
            -25,
            10**kind.scale,
            -(10**kind.scale),
            10**kind.scale // 2,
            most,
            -most,
            rng.randint(-most, most),
        ]
    )
    return PyDecimal(f"{steps}E-{kind.scale}") if abs(steps) <= most else PyDecimal(0)


def _column(rng: random.Random, kind: DataType, rows: int) -> pa.Array:
    def value() -> object:
        if rng.random() < 0.15:
            return None
        return _value(rng, kind)

    values = [value() for _ in range(rows)]
    name = str(kind)
    if name == "date":
        return pa.array(values, pa.int32()).cast(pa.date32())
    if name in ("timestamp", "timestamp_ntz"):
        return pa.array(values, pa.int64()).cast(pa.timestamp("us", "UTC" if name == "timestamp" else None))
    return pa.array(values, arrow_schema(Struct((Field("x", kind),))).field(0).type)


def _value(rng: random.Random, kind: DataType) -> object:
    if isinstance(kind, Decimal):
        return _decimal(rng, kind)
    if isinstance(kind, List):
        return [_small(rng) for _ in range(rng.randrange(4))]
    if isinstance(kind, Map):
        return [(key, _small(rng)) for key in rng.sample(["", "a", "b", "😀"], rng.randrange(3))]
    if isinstance(kind, Struct):
        return {"x": _small(rng), "y": rng.choice([*_TEXTS, None])}
    name = str(kind)
    if name in _BITS:
        return _integer(rng, _BITS[name])
    usual, extreme = _VALUES[name]
    return rng.choice(extreme) if rng.random() < 0.03 else rng.choice([*usual, rng.choice(usual), *_drawn(rng, name)])


def _drawn(rng: random.Random, name: str) -> list[object]:
    if name in ("float", "double"):
        return [rng.uniform(-1e6, 1e6) for _ in range(5)]
    if name == "date":
        return [rng.randrange(-800000, 3000000) for _ in range(3)]
    return [rng.randrange(-(10**17), 3 * 10**17) for _ in range(3)] if name.startswith("timestamp") else []


_VALUES: dict[str, tuple[list[Any], list[Any]]] = {
    "boolean": ([True, False], [True]),
    "float": (_DOUBLES, _DOUBLES),
    "double": (_DOUBLES, _DOUBLES),
    "string": (_TEXTS, _TEXTS),
    "binary": ([b"", b"\x00", b"abc", b"\xff\xfe", "ß".encode(), b"12"], [b""]),
    "date": (_DAYS, _EXTREME_DAYS),
    "timestamp": (_MICROS, _EXTREME_MICROS),
    "timestamp_ntz": (_MICROS, _EXTREME_MICROS),
}


def _small(rng: random.Random) -> int | None:
    return rng.choice([None, 0, 1, 2, -1, 5, 2147483647])


def random_rows(rng: random.Random, rows: int) -> pa.RecordBatch:
    """Return rows of the schema, with nulls and extremes in every column."""
    return pa.RecordBatch.from_arrays([_column(rng, child.type, rows) for child in SCHEMA], schema=arrow_schema(SCHEMA))


_BY_KIND: dict[str, list[str]] = {}
for _name, _kind in _PLAIN.items():
    _BY_KIND.setdefault("decimal" if isinstance(_kind, Decimal) else str(_kind), []).append(_name)
_INTEGERS = ("byte", "short", "integer", "long")
_NUMBERS = (*_INTEGERS, "float", "double", "decimal")
_TIMES = ("date", "timestamp", "timestamp_ntz")
_CASTS = {
    "boolean": ("boolean", *_NUMBERS, "string"),
    **{name: ("boolean", *_NUMBERS, "string", *(() if name not in _INTEGERS else ("timestamp",))) for name in _NUMBERS},
    "string": ("boolean", *_INTEGERS, "decimal", "string", *_TIMES, "string"),
    "decimal": ("boolean", *_INTEGERS, "decimal", "string"),
    **dict.fromkeys(_TIMES, (*_TIMES, "string")),
    "binary": ("string", "binary"),
}
_SQL = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


class Expressions:
    """A generator of random expressions of a kind: the name of a type, or ``decimal`` for any decimal."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def any(self, depth: int = 3) -> str:
        """Return an expression of any kind."""
        return self.of(
            self._rng.choice([*_NUMBERS, "boolean", "boolean", "string", "string", "binary", *_TIMES]), depth
        )

    def of(self, kind: str, depth: int) -> str:
        """Return an expression of a kind."""
        if depth <= 0 or self._rng.random() < 0.15:
            return self._leaf(kind)
        choices = [self._conditional, self._cast]
        own = getattr(
            self, f"_{'integer' if kind in _INTEGERS else 'floating' if kind in ('float', 'double') else kind}"
        )
        return str(self._rng.choice([*choices, own, own, own])(kind, depth - 1))

    def _leaf(self, kind: str) -> str:
        if self._rng.random() < 0.75:
            return self._rng.choice(_BY_KIND[kind])
        return self._literal(kind)

    def _literal(self, kind: str) -> str:
        rng = self._rng
        if rng.random() < 0.1:
            return f"CAST(NULL AS {self._type(kind)})"
        if kind in _BITS:
            suffix = {"byte": "Y", "short": "S", "integer": "", "long": "L"}[kind]
            return f"{_integer(rng, _BITS[kind])}{suffix}"
        if kind in ("float", "double"):
            number = rng.choice([0.5, 2.0, -1.5, 100.0, 0.1])
            return f"{number}{'F' if kind == 'float' else 'D'}"
        if kind == "decimal":
            return rng.choice(
                ["1.5", "0.01", "-3.0", "100BD", "99999999.999999", "0.5BD", "12345678901234567890.123456789"]
            )
        if kind == "boolean":
            return rng.choice(["TRUE", "FALSE"])
        if kind == "string":
            return self._quoted(rng.choice(_TEXTS))
        if kind == "binary":
            return rng.choice(["X''", "X'FF00'", "X'616263'"])
        if kind == "date":
            return rng.choice(["DATE '2020-02-29'", "DATE '1582-10-15'", "DATE '0001-01-01'", "DATE '9999-12-31'"])
        if kind == "timestamp":
            return rng.choice(["TIMESTAMP '2020-03-08 02:30:00'", "TIMESTAMP '1500-01-01 00:00:00.5'"])
        return rng.choice(["TIMESTAMP_NTZ '2020-02-29 23:59:59.999999'", "TIMESTAMP_NTZ '0001-01-01'"])

    @staticmethod
    def _quoted(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def _type(self, kind: str) -> str:
        if kind == "decimal":
            return self._rng.choice(
                ["decimal(10,2)", "decimal(38,0)", "decimal(38,18)", "decimal(5,5)", "decimal(20,3)"]
            )
        return _SQL.get(kind, kind)

    def _conditional(self, kind: str, depth: int) -> str:
        one, other, condition = self.of(kind, depth), self.of(kind, depth), self.of("boolean", depth)
        return self._rng.choice(
            [
                f"CASE WHEN {condition} THEN {one} ELSE {other} END",
                f"CASE WHEN {condition} THEN {one} END",
                f"if({condition}, {one}, {other})",
                f"coalesce({one}, {other})",
                f"nvl({one}, {other})",
                f"nullif({one}, {other})",
                f"nvl2({one}, {other}, {one})",
                f"greatest({one}, {other})" if kind != "binary" else one,
                f"least({one}, {other})" if kind != "binary" else other,
            ]
        )

    def _cast(self, kind: str, depth: int) -> str:
        given = self._rng.choice(_CASTS[kind])
        return f"CAST({self.of(given, depth)} AS {self._type(kind)})"

    def _pair(self, kinds: tuple[str, ...], depth: int) -> tuple[str, str]:
        return self.of(self._rng.choice(kinds), depth), self.of(self._rng.choice(kinds), depth)

    def _integer(self, kind: str, depth: int) -> str:
        rng = self._rng
        one, other = self.of(kind, depth), self.of(kind, depth)
        choices = [f"({one} {rng.choice('+-*%&|^')} {other})" for _ in range(3)]
        choices += [f"(- {one})", f"abs({one})", f"pmod({one}, {other})", f"~{self._leaf(kind)}", f"round({one}, -1)"]
        if kind == "long":
            number = self.of(rng.choice(_NUMBERS), depth)
            choices += [f"({one} DIV {other})", f"({self.of('decimal', depth)} DIV {other})", f"ceil({one})"]
            choices += [f"floor({self.of('double', depth)})", f"CAST({number} AS bigint)", "st.x"]
            choices += [f"unix_seconds({self.of('timestamp', depth)})", f"crc32({self.of('string', depth)})"]
        if kind == "integer":
            choices = choices[:4] + self._integers(depth)
        return rng.choice(choices)

    def _integers(self, depth: int) -> list[str]:
        text, date, moment = self.of("string", depth), self.of("date", depth), self.of("timestamp", depth)
        part = self._rng.choice(["year", "quarter", "month", "day", "dayofweek", "weekday", "dayofyear", "weekofyear"])
        clock = self._rng.choice(["hour", "minute", "second"])
        literal = self._quoted(self._rng.choice(_TEXTS))
        return [
            f"length({text})", f"instr({text}, {self.of('string', depth)})", f"octet_length({text})", f"ascii({text})",
            f"{part}({date})", f"{part}({moment})", f"{clock}({moment})", f"{clock}({self.of('timestamp_ntz', depth)})",
            f"datediff({date}, {self.of('date', depth)})", "size(ai)", f"ai[{self._small_number()}]",
            f"get(ai, {self.of('integer', 0)})",
            f"element_at(ai, {self._small_number()})", f"ma[{text}]", f"element_at(ma, {literal})",
            f"locate({literal}, {text})",
            "size(ma)", f"array({self.of('integer', depth)}, i)[1]", f"map({text}, i)[{text}]", "size(map_keys(ma))",
            f"extract(year FROM {date})", f"date_part('dow', {date})", f"length({self.of('binary', depth)})",
        ]  # fmt: skip

    def _small_number(self) -> str:
        return self._rng.choice(["0", "1", "2", "-1", "3", "by"])

    def _floating(self, kind: str, depth: int) -> str:
        rng = self._rng
        one, other = self.of(kind, depth), self.of(kind, depth)
        choices = [f"({one} {rng.choice('+-*/%')} {other})" for _ in range(3)]
        choices += [f"(- {one})", f"abs({one})", f"pmod({one}, {other})", f"nanvl({one}, {other})", f"bround({one}, 1)"]
        choices += [f"round({one}, {rng.choice([0, 1, 2, -1, -2])})"]
        if kind == "double":
            number, more = self._pair(_NUMBERS, depth)
            choices += [f"sqrt({number})", f"sign({number})", f"({number} / {more})"]
        return rng.choice(choices)

    def _decimal(self, _: str, depth: int) -> str:
        rng = self._rng
        one = self.of("decimal", depth)
        other = self.of(rng.choice(["decimal", "decimal", *_INTEGERS]), depth)
        choices = [f"({one} {rng.choice('+-*/%')} {other})" for _ in range(4)]
        choices += [f"round({one}, {rng.choice([0, 1, 5, -1, -3])})", f"bround({one}, {rng.choice([0, 1, -1])})"]
        choices += [
            f"ceil({one})",
            f"floor({one})",
            f"abs(CAST({one} AS decimal(30,10)))",
            "(- m)",
            f"pmod({one}, {other})",
        ]
        choices += [f"extract(second FROM {self.of('timestamp', depth)})"]
        return rng.choice(choices)

    def _boolean(self, _: str, depth: int) -> str:
        rng = self._rng
        one, other = self.of("boolean", depth), self.of("boolean", depth)
        kind = rng.choice([*_NUMBERS, "boolean", "string", "binary", *_TIMES])
        left, right = self.of(kind, depth), self.of(kind, depth)
        if rng.random() < 0.3:
            group = rng.choice([_NUMBERS, _TIMES])
            left, right = self._pair(group, depth)
        text = self.of("string", depth)
        compared = f"({left} {rng.choice(['=', '<', '<=', '>', '>=', '<>', '<=>'])} {right})"
        return rng.choice(
            [
                f"({one} AND {other})", f"({one} OR {other})", f"(NOT {one})", f"({left} IS NULL)",
                f"({left} IS NOT NULL)",
                compared, compared, compared, f"({left} IN ({right}, {self.of(kind, depth)}))",
                f"({left} NOT IN ({self._literal(kind)}, {self._literal(kind)}))",
                f"({left} BETWEEN {right} AND {left})",
                f"isnan({self.of('double', depth)})", f"({text} LIKE {self._pattern()})",
                f"({text} ILIKE {self._pattern()})",
                f"({text} RLIKE {self._regex()})", f"startswith({text}, {self.of('string', 0)})",
                f"endswith({text}, {self.of('string', 0)})", f"contains({text}, {self.of('string', 0)})",
                f"array_contains(ai, {self.of('integer', depth)})", f"map_contains_key(ma, {text})",
                f"({one} IS TRUE)",
                f"({one} IS NOT FALSE)", f"({left} IS DISTINCT FROM {right})",
            ]
        )  # fmt: skip

    def _pattern(self) -> str:
        return self._quoted(
            self._rng.choice(["%", "a%", "%b", "%a%", "_", "__", "a_%", "%\\%%", "", "%\n%", "_\\_%", "1%2"])
        )

    def _regex(self) -> str:
        patterns = [
            "a",
            "^a",
            "b$",
            "[0-9]+",
            "\\d{2,3}",
            "^.$",
            "\\s",
            "(a|b)c?",
            "[^a-z]",
            "a.b",
            "^[A-Za-z]+$",
            "\\.",
            "x*",
        ]
        return self._quoted(self._rng.choice(patterns))

    def _string(self, _: str, depth: int) -> str:
        rng = self._rng
        one, other = self.of("string", depth), self.of("string", depth)
        number = self.of("integer", 0) if rng.random() < 0.2 else str(rng.randrange(-3, 6))
        mark = self._quoted(rng.choice([" ", "a", ",", "X", "ab", "😀", "1"]))
        time = self.of(rng.choice(["timestamp", "timestamp_ntz", "date"]), depth)
        whole = self.of(rng.choice([*_INTEGERS, "decimal", "boolean", *_TIMES]), depth)
        pattern = rng.choice(["yyyy-MM-dd HH:mm:ss", "E d MMM yy", "h:m a", "HHmmssSSS"])
        digest = rng.choice(["md5({})", "sha1({})", "sha2({}, 256)", "hex({})", "base64({})"])
        return rng.choice(
            [
                f"upper({one})", f"lower({one})", f"trim({one})", f"ltrim({one})", f"rtrim({one})",
                f"trim(BOTH {mark} FROM {one})",
                f"trim(LEADING {mark} FROM {one})", f"btrim({one}, {mark})", f"substring({one}, {number})",
                f"substring({one}, {number}, {rng.randrange(-1, 4)})", f"left({one}, {number})",
                f"right({one}, {number})",
                f"concat({one}, {other})", f"({one} || {other})", f"concat({one}, {whole})",
                f"concat_ws({mark}, {one}, {other})",
                f"replace({one}, {mark}, {other})", f"replace({one}, {other})",
                f"lpad({one}, {rng.randrange(-1, 8)}, {mark})",
                f"rpad({one}, {rng.randrange(-1, 8)}, {other})", f"split_part({one}, {mark}, {rng.choice([1, 2, -1])})",
                f"repeat({one}, {rng.randrange(-1, 4)})", f"reverse({one})", f"translate({one}, 'ab1', 'xy')", "st.y",
                f"date_format({time}, '{pattern}')", f"regexp_replace({one}, '[a-c]', '#')",
                f"regexp_extract({one}, '([a-z])(.)', 2)", f"split({one}, {mark})[0]", digest.format(one),
                f"CAST({whole} AS string)",
            ]
        )  # fmt: skip

    def _binary(self, _: str, depth: int) -> str:
        return f"concat({self.of('binary', depth)}, {self.of('binary', depth)})"

    def _interval(self) -> str:
        return self._rng.choice(["1 DAY", "-3 DAY", "1 MONTH", "13 MONTH", "-1 YEAR", "2 WEEK"])

    def _date(self, _: str, depth: int) -> str:
        rng = self._rng
        one, days = self.of("date", depth), rng.choice([self.of("byte", depth), "1", "-40"])
        unit = rng.choice(["year", "quarter", "MM", "week", "nonsense"])
        return rng.choice(
            [
                f"date_add({one}, {days})", f"date_sub({one}, {days})", f"add_months({one}, {days})",
                f"last_day({one})", f"({one} {rng.choice('+-')} {days})",
                f"trunc({one}, '{unit}')", f"to_date({self.of('timestamp', depth)})",
                f"make_date({self.of('short', 0)}, by, 1)",
                f"({one} {rng.choice('+-')} INTERVAL {self._interval()})", f"date({self.of('string', depth)})",
                f"to_date({self.of('string', depth)}, 'yyyy-MM-dd')", f"try_cast({self.of('string', depth)} AS DATE)",
                f"to_date(date_format({one}, 'd/M/yyyy'), 'd/M/yyyy')",
            ]
        )  # fmt: skip

    def _timestamp(self, kind: str, depth: int) -> str:
        rng = self._rng
        one = self.of(kind, depth)
        interval = rng.choice([self._interval(), "5 HOUR", "-90 MINUTE", "1.5 SECOND", "'1 02:03:04.5' DAY TO SECOND"])
        choices = [f"({one} {rng.choice('+-')} INTERVAL {interval})"] * 2
        if kind == "timestamp":
            unit = rng.choice(["year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond"])
            choices += [f"date_trunc('{unit}', {one})"] * 2
            choices += [
                f"timestamp_seconds({self.of('integer', depth)})",
                f"timestamp_micros({self.of('long', depth)})",
            ]
        return rng.choice(choices)

    def _timestamp_ntz(self, kind: str, depth: int) -> str:
        return self._timestamp(kind, depth)
