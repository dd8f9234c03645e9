"""Values of table properties: one of some texts, or how files of a format are compressed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa

from deltaberg.choices import Codec
from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import shown_value
from deltaberg.table.property_values import wrong_value

__all__ = ["choice_of", "codec_of", "compression_of"]

#: The codecs of each format, by their names here; the first is the default of the format.
_CODECS: dict[str, tuple[Codec, ...]] = {
    "parquet": ("zstd", "gzip", "snappy", "lz4", "brotli", "none"),
    "orc": ("gzip", "zstd", "snappy", "lz4", "none"),
    "avro": ("gzip", "zstd", "snappy", "none"),
}
_NAMES = {"parquet": "Parquet", "orc": "ORC", "avro": "Avro"}
_SPELLINGS = {"uncompressed": "none", "zlib": "gzip", "deflate": "gzip"}
_OWN_SPELLINGS = {"parquet": {"lz4_raw": "lz4"}, "avro": {"null": "none", "zstandard": "zstd"}}
#: The codecs that have levels, in each format that has some.
_WITH_LEVELS = {"parquet": ("zstd", "gzip", "brotli"), "avro": ("gzip",)}


def choice_of(properties: Mapping[str, str], name: str, choices: Sequence[str], default: str | None = None) -> str:
    """Return the text that a property has as its value, in lower case; by default the first of the choices.

    Raises
    ------
    InvalidArgumentError
        It is none of the choices.
    """
    text = properties.get(name, default or choices[0]).strip().lower()
    if text not in choices:
        raise wrong_value(name, text, f"{', '.join(choices[:-1])} or {choices[-1]}")
    return text


def codec_of(form: str, what: str, text: str) -> Codec:
    """Return a codec of a format by its name here.

    Parameters
    ----------
    what
        What names the codec.
    """
    found = text.strip().lower()
    named = (_SPELLINGS | _OWN_SPELLINGS.get(form, {})).get(found, found)
    codec = next((known for known in _CODECS[form] if known == named), None)
    if codec is None:
        raise InvalidArgumentError(
            f"{what} is {shown_value(text)}, which is not a codec of {_NAMES[form]} files",
            hint=f"{_NAMES[form]} files are written with {', '.join(_CODECS[form])}",
        )
    return codec


def compression_of(properties: Mapping[str, str], form: str) -> tuple[Codec, int | None]:
    """Return the codec of files of a format, and its level; None for the default level.

    As in Iceberg's library, codecs without levels ignore it.

    Raises
    ------
    InvalidArgumentError
        The format has no such codec, or the codec no such level.
    """
    name = f"write.{form}.compression-codec"
    codec = codec_of(form, f"the property {name}", properties.get(name, _CODECS[form][0]))
    name = f"write.{form}.compression-level"
    text = properties.get(name, "null").strip().lower()
    if text in ("", "null") or codec not in _WITH_LEVELS.get(form, ()):
        return codec, None
    least, most = pa.Codec.minimum_compression_level(codec), pa.Codec.maximum_compression_level(codec)
    if not re.fullmatch("-?[0-9]{1,9}", text) or not least <= int(text) <= most:
        raise wrong_value(name, text, f"a whole number of {least} to {most}, the levels of {codec}")
    return codec, int(text)
