"""Texts of scalars of every primitive type: valid ones, invalid ones, and edge cases."""

from __future__ import annotations

from hypothesis import strategies as st

__all__ = ["ODD_TEXTS", "PRIMITIVES", "texts"]

#: Texts of which messages must not show every character as it is.
ODD_TEXTS = st.text(st.sampled_from("a'\"\\/\0\b\t\n\f\r\x1b\x7f\x80\x9b\x9f\xa0\u0301\u2028\u202e\ufeff𝄞"), max_size=8)

PRIMITIVES = [
    "string",
    "long",
    "integer",
    "short",
    "byte",
    "float",
    "double",
    "boolean",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
    "decimal(10,2)",
    "decimal(38,0)",
    "decimal(38,38)",
    "decimal(38,18)",
    "decimal(1,1)",
    "decimal(20,0)",
]

_NUMBERS = [
    "0", "-0", "+7", "-128", "127", "128", "32767", "32768", "2147483647", "-2147483648", "2147483648",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "0" * 5000 + "1", "-" + "0" * 30, "1" * 5000, "1.0", "1.50", ".5", "5.", ".", "1e3", "1E-3", "1e", "e1", "--1",
    "+-1", "1_000", " 1", "1 ", "0x1", "1.0E10", "NaN", "nan", "Infinity", "-Infinity", "+Infinity", "-NaN", "inf",
    "-inf", "+INF", "INFINITY", "-iNfinity", "NAN", "+nan", "infinit", "\u0131nf", "in\ufb01nity",
    "1e308", "1e309", "1e-400", "4.9e-324", "3.4028235e38", "3.5e38", "16777217", "1e99999999999999999999",
    "1e-99999999999999999999", "0e99999999999999999999", "1e" + "0" * 5000 + "1", "1e-" + "0" * 5000 + "1",
    "1e1000000000", "0." + "0" * 37 + "1", "0." + "0" * 38 + "1", "0.10" + "0" * 500, "9" * 38, "9" * 39,
    "99999999.99", "99999999.995", "100000000", "0.99", "0.9", "1.0e-1", "0x", "\u0661", "1\u0660", "-", "+", "",
]  # fmt: skip
_DATES = [
    "1970-01-01", "2017-12-10", "0001-01-01", "0000-12-31", "-0001-01-01", "9999-12-31", "10000-01-01", "+12345-06-07",
    "5881580-07-11", "5881580-07-12", "-5877641-06-23", "-5877641-06-24", "9999999-01-01", "2023-02-29", "2024-02-29",
    "1900-02-29", "2000-02-29", "2020-1-2", "2020-13-01", "2020-00-10", "2020-10-00", "2020-10-32", "20-01-01", "2020",
    "2020-01", "2020/01/01", "2020-01-01 ", "2020-01-01T", "\u0662020-01-01", "2020-01-01\n", "12345678-01-01",
]  # fmt: skip
_TIMES = [
    "", " 00:00:00", "T00:00:00", " 23:59:59.999999", "T1:2:3", " 01:02", "T24:00:00", " 00:60:00", " 00:00:60",
    " 00:00:00.", " 00:00:00.1", "T00:00:00.123456789", "T00:00:00.1234567890", " 12:34:56.789012", "  00:00:00",
    " 00", "T00:00:00,5", " 001:00:00", " 00:00:00.\u0661",
]  # fmt: skip
_ZONES = [
    "", "Z", "+00:00", "-08:00", "+05:30", "+18:00", "+19:00", "+00:53:28", "-00:53", "+01", "z", "UTC", " Z", "+1:00",
    "-00:00:59", "+00:60", "+0530", "[UTC]",
]  # fmt: skip
_EXTREMES = [
    "294247-01-10T04:00:54.775807Z", "294247-01-10T04:00:54.775808Z", "-290308-12-21 19:59:05.224192",
    "-290308-12-21 19:59:05.224191", "294247-01-10T04:00:54.775807-00:01", "-290308-12-21T19:59:05.224192+00:01",
]  # fmt: skip


def texts(primitive: str) -> st.SearchStrategy[str]:
    """Draw texts that could be meant as values of a type, often of others too."""
    anything = st.text(max_size=8)
    if primitive.startswith("decimal") or primitive in ("long", "integer", "short", "byte", "float", "double"):
        digits = st.from_regex(r"[+-]?[0-9]{1,40}(\.[0-9]{0,40})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)
        return st.sampled_from(_NUMBERS) | digits | st.floats().map(repr) | st.integers().map(str) | anything
    if primitive == "boolean":
        return (
            st.sampled_from(["true", "false", "TRUE", "False", "tRuE", "yes", "1", " true", "true ", "\u017f"])
            | anything
        )
    if primitive == "date" or primitive.startswith("timestamp"):
        stamps = st.builds("{}{}{}".format, st.sampled_from(_DATES), st.sampled_from(_TIMES), st.sampled_from(_ZONES))
        made = st.datetimes().map(str) | st.dates().map(str)
        return st.sampled_from(_DATES) | stamps | st.sampled_from(_EXTREMES) | made | anything
    escapes = st.sampled_from(
        ["\u0001\u0002\u0003", "\x00", "a=b/c %", "\x7f", "😀" * 3, "a" * 32 + "\x7f", "NaN", "\U0010ffff"]
    )
    return escapes | anything
