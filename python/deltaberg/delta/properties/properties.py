"""Table properties that users set: which ones Delta knows, what their values may be, and who may set them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from deltaberg.delta.after_commit.steps import COMPACTION_INTERVAL
from deltaberg.delta.features import FEATURES, MAPPING_MODE
from deltaberg.delta.properties.auto_optimize import AUTO_COMPACT, AUTO_COMPACT_VALUES, OPTIMIZE_WRITE
from deltaberg.delta.properties.writer_properties import ROW_GROUP_SIZE
from deltaberg.delta.schema.iceberg_compat import FORMATS
from deltaberg.delta.schema.new_columns import MAX_COLUMN_ID
from deltaberg.delta.schema.row_tracking import MATERIALIZED_ROW_COLUMNS
from deltaberg.delta.snapshot.history import SINCE_TIMESTAMP, SINCE_VERSION
from deltaberg.delta.snapshot.retention import KEPT_VERSIONS, kept_versions, parse_interval
from deltaberg.errors import InvalidArgumentError, SchemaError
from deltaberg.hints import shown_value
from deltaberg.table.arguments import checked_properties as named_properties
from deltaberg.whole_numbers import whole_number

__all__ = ["INTERNAL_PROPERTIES", "check_name", "checked_properties", "target_size"]

_RESERVED = "delta."
_TARGET, _SIZES = "delta.targetFileSize", "a size, such as 134217728 or 128mb"
_SIZE = re.compile(r"([0-9]{1,18})\s*(b|[kmgt]b?|)")
#: Other engines read no more than 32 bits, and no sign or underscore that Python allows.
_NUMBER = re.compile(r"-?[0-9]{1,9}")
_SHIFTS = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}
#: Properties that only the library itself writes.
INTERNAL_PROPERTIES = frozenset({MAX_COLUMN_ID, SINCE_VERSION, SINCE_TIMESTAMP, *MATERIALIZED_ROW_COLUMNS})


def _is_switch(text: str) -> bool:
    return text.lower() in ("true", "false")


def _is_number(least: int) -> Callable[[str], bool]:
    return lambda text: _NUMBER.fullmatch(text) is not None and int(text) >= least


def _is_interval(text: str) -> bool:
    try:
        parse_interval(text)
    except SchemaError:
        return False
    return True


def _are_versions(text: str) -> bool:
    try:
        kept_versions({KEPT_VERSIONS: text})
    except SchemaError:
        return False
    return True


def target_size(properties: Mapping[str, str]) -> int | None:
    """Return how many bytes data files have, from ``delta.targetFileSize``; None where it is not set, or is no size.

    Others write sizes in other ways, and no row depends on them.

    Examples
    --------
    >>> target_size({"delta.targetFileSize": "134217728"}), target_size({"delta.targetFileSize": "128mb"})
    (134217728, 134217728)
    """
    return _parsed_size(properties.get(_TARGET, ""))


def _parsed_size(text: str) -> int | None:
    found = _SIZE.fullmatch(text.strip().lower())
    return (int(found[1]) << _SHIFTS[found[2][:1]]) or None if found else None


def _is_one_of(*words: str) -> Callable[[str], bool]:
    return lambda text: text.lower() in words


def _are_formats(text: str) -> bool:
    return all(part.strip().lower() in ("", "hudi", "iceberg") for part in text.split(","))


def _is_anything(_text: str) -> bool:
    return True


_SWITCHES = (
    OPTIMIZE_WRITE,
    "delta.checkpoint.writeStatsAsJson",
    "delta.checkpoint.writeStatsAsStruct",
    "delta.compatibility.symlinkFormatManifest.enabled",
    "delta.enableExpiredLogCleanup",
    "delta.enableFullRetentionRollback",
    "delta.randomizeFilePrefixes",
    "delta.rowTrackingSuspended",
    "delta.writePartitionColumnsToParquet",
)
#: What Delta knows, and properties of our own: the check of each property's value, and what a valid value looks like.
_KNOWN: dict[str, tuple[Callable[[str], bool], str]] = {
    **dict.fromkeys(_SWITCHES, (_is_switch, "true or false")),
    **{
        feature.activated_by[0]: (_is_switch, "true or false")
        for feature in FEATURES.values()
        if feature.activated_by is not None
    },
    MAPPING_MODE: (_is_one_of("none", "name", "id"), "none, name or id"),
    "delta.autoOptimize": (_is_switch, "true or false"),
    AUTO_COMPACT: (_is_one_of(*AUTO_COMPACT_VALUES), "true, auto, legacy or false"),
    "delta.checkpointInterval": (_is_number(1), "a number of at least 1"),
    # delta-spark compares the letters as they are.
    "delta.checkpointPolicy": (("classic", "v2").__contains__, "classic or v2"),
    "delta.checkpointRetentionDuration": (_is_interval, "an interval, such as interval 2 days"),
    "delta.dataSkippingNumIndexedCols": (_is_number(-1), "a number of at least -1"),
    "delta.dataSkippingStatsColumns": (_is_anything, "names of columns"),
    "delta.deletedFileRetentionDuration": (_is_interval, "an interval, such as interval 7 days"),
    "delta.dropFeatureTruncateHistory.retentionDuration": (_is_interval, "an interval, such as interval 24 hours"),
    "delta.isolationLevel": (
        _is_one_of("serializable", "writeserializable", "snapshotisolation"),
        "Serializable or WriteSerializable",
    ),
    "delta.logRetentionDuration": (_is_interval, "an interval, such as interval 30 days"),
    "delta.parquet.compression.codec": (
        _is_one_of("snappy", "zstd", "gzip", "lz4", "lz4_raw", "brotli", "uncompressed", "none"),
        "a codec, such as zstd",
    ),
    "delta.randomPrefixLength": (_is_number(1), "a number of at least 1"),
    "delta.sampleRetentionDuration": (_is_interval, "an interval, such as interval 7 days"),
    "delta.setTransactionRetentionDuration": (_is_interval, "an interval, such as interval 30 days"),
    _TARGET: (lambda text: _parsed_size(text) is not None, _SIZES),
    "delta.tuneFileSizesForRewrites": (_is_switch, "true or false"),
    KEPT_VERSIONS: (_are_versions, "versions, such as 3, 17"),
    COMPACTION_INTERVAL: (_is_number(2), "a number of at least 2"),
    ROW_GROUP_SIZE: (lambda text: whole_number(text, 1) is not None, "a number of bytes"),
    FORMATS: (_are_formats, "hudi or iceberg, or both, with commas"),
}
#: Requests to the operation that sets them; `features_of_properties` reads them.
_REQUESTS = ("delta.feature.", "delta.constraints.", "delta.minReaderVersion", "delta.minWriterVersion")


def checked_properties(properties: Mapping[str, Any] | None) -> dict[str, str]:
    """Return properties of a user as text.

    Raises
    ------
    InvalidArgumentError
        A property has a name that Delta reserves and does not know, an internal name, or a value that is not valid.

    Examples
    --------
    >>> checked_properties({"delta.appendOnly": True, "owner": "ada"})
    {'delta.appendOnly': 'true', 'owner': 'ada'}
    """
    texts = {}
    for name, value in named_properties(properties).items():
        text = str(value).lower() if isinstance(value, bool) else value
        if isinstance(text, int):
            text = str(text)
        if not isinstance(text, str):
            raise InvalidArgumentError(
                f"the property {name} must be text, a number, True or False, not {shown_value(value)}"
            )
        texts[name] = _checked(name, text)
    return texts


def check_name(name: str) -> None:
    """Refuse the name of a property that Delta reserves and does not know.

    Raises
    ------
    InvalidArgumentError
        It is such a name.
    """
    if name not in _KNOWN and name.startswith(_RESERVED) and not name.startswith(_REQUESTS):
        raise InvalidArgumentError(
            f"Delta has no property {name}", hint="names of your own do not begin with delta.; check the spelling"
        )


def _checked(name: str, text: str) -> str:
    """Return the value of a property as it is recorded: without blanks around it, which other engines do not expect."""
    if not name:
        raise InvalidArgumentError("the name of a property is empty", hint="name it, or leave it out")
    if name in INTERNAL_PROPERTIES:
        raise InvalidArgumentError(f"the property {name} is kept by the library itself", hint="leave it out")
    if name not in _KNOWN:
        check_name(name)
        return text
    is_valid, hint = _KNOWN[name]
    value = text.strip()
    if not is_valid(value):
        raise InvalidArgumentError(f"the property {name} must be {hint}, not {shown_value(text)}")
    # Readers compare the letters as they are.
    return value.lower() if name == MAPPING_MODE else value
