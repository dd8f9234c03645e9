"""The names of data files, and the directories that show their partition values."""

from __future__ import annotations

import secrets
import string
import uuid
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.files.write import CODECS
from deltaberg.table.write.spec import WriteSpec

__all__ = ["file_path", "partition_directory"]

#: What Hive shows for null, and for the empty text.
_NULL = "__HIVE_DEFAULT_PARTITION__"
_LETTERS = string.ascii_letters + string.digits
#: Characters that Hive escapes in the names of directories.
_ESCAPED = frozenset("\"#%'*/:=?\\{}[]^\x7f") | {chr(number) for number in range(32)}
#: Bytes of a name at most: file systems allow 255.
_LONGEST = 200


def file_path(spec: WriteSpec, values: Iterable[tuple[str, pa.Scalar]], number: int) -> str:
    """Return a path for a new data file, relative to the table. It has a GUID, so that no file has the same.

    Parameters
    ----------
    spec
        What the table asks for.
    values
        Physical names of the partition fields, with the values of the file.
    number
        The number of the file in its write.
    """
    if spec.place is not None:
        return spec.place([value for _, value in values], number)
    parts = [spec.directory] if spec.directory else []
    if spec.random_prefix:
        parts.append("".join(secrets.choice(_LETTERS) for _ in range(spec.random_prefix)))
    elif spec.partition_directories:
        parts.extend(partition_directory(name, value) for name, value in values)
    return "/".join([*(part for part in parts if part), _name(spec, number)])


def _name(spec: WriteSpec, number: int) -> str:
    return f"{spec.prefix}-{number:05d}-{uuid.uuid4()}.c000{CODECS[spec.parquet.main_codec]}.parquet"


def partition_directory(name: str, value: pa.Scalar) -> str:
    """Return the name of a directory that shows a partition value, as Hive does.

    Readers never take a value from it. So a long value is cut, and a field whose directory readers would take for a
    hidden one gets none: the empty text.

    Examples
    --------
    >>> partition_directory("day", pa.scalar("a/b"))
    'day=a%2Fb'
    >>> partition_directory("_hidden", pa.scalar(1))
    ''
    """
    shown = f"{_escaped(name)}={_escaped(_text(value)) or _NULL}"
    if shown.startswith(("_", ".")):
        return ""
    if len(shown.encode()) > _LONGEST:
        shown = shown.encode()[:_LONGEST].decode(errors="ignore").rstrip("% .")
    return shown


def _text(value: pa.Scalar) -> str:
    if not value.is_valid:
        return ""
    kind = value.type
    if pt.is_string(kind):
        return str(value.as_py())
    if pt.is_binary(kind) or pt.is_fixed_size_binary(kind):
        return str(value.as_py().hex())
    if pt.is_decimal(kind):
        return format(value.as_py(), "f")
    if pt.is_timestamp(kind):
        # The text of an instant would need a database of time zones.
        value = pa.scalar(value.value, pa.int64()).cast(pa.timestamp(kind.unit))
    return str(pc.cast(value, pa.string()).as_py())


def _escaped(text: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)
