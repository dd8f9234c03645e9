"""Protocol versions and table features: what a reader must know, and what it may leave to writers.

Delta protocol, "Table Features".
"""

from __future__ import annotations

from deltaberg.delta.actions import Protocol
from deltaberg.errors import CorruptLogError, UnsupportedFeatureError

__all__ = [
    "ACTIVATING_PROPERTIES",
    "FEATURES",
    "READER_FEATURES",
    "WRITER_FEATURES",
    "check_protocol",
    "misplaced_features",
    "reads_column_mapping",
    "supported_features",
    "supports",
]

#: The features that the protocol document names: those that writers alone must know, and those for readers too.
WRITER_FEATURES = frozenset(
    {
        "appendOnly",
        "invariants",
        "checkConstraints",
        "generatedColumns",
        "allowColumnDefaults",
        "changeDataFeed",
        "identityColumns",
        "rowTracking",
        "domainMetadata",
        "icebergCompatV1",
        "icebergCompatV2",
        "clustering",
    }
)
READER_FEATURES = frozenset({"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint"})
FEATURES = WRITER_FEATURES | READER_FEATURES
#: The property that makes a supported feature active; other features are active where they are supported.
ACTIVATING_PROPERTIES = {
    "appendOnly": "delta.appendOnly",
    "changeDataFeed": "delta.enableChangeDataFeed",
    "deletionVectors": "delta.enableDeletionVectors",
    "icebergCompatV1": "delta.enableIcebergCompatV1",
    "icebergCompatV2": "delta.enableIcebergCompatV2",
    "inCommitTimestamp": "delta.enableInCommitTimestamps",
    "rowTracking": "delta.enableRowTracking",
    "typeWidening": "delta.enableTypeWidening",
}

#: Reader features that this library implements: those of the document, later ones, and names of their previews.
_READABLE = READER_FEATURES | {
    "timestampWithoutTimezone",
    "typeWidening",
    "typeWidening-preview",
    "vacuumProtocolCheck",
    "variantShredding",
    "variantShredding-preview",
    "variantType",
    "variantType-preview",
}
_CATALOG = frozenset({"catalogManaged", "catalogOwned", "catalogOwned-preview", "coordinatedCommits-preview"})
_MAX_READER_VERSION = 3
_TABLE_FEATURES_READER, _TABLE_FEATURES_WRITER = 3, 7
_COLUMN_MAPPING_READER = 2


def check_protocol(protocol: Protocol) -> None:
    """Refuse a table that this library cannot read.

    Raises
    ------
    CorruptLogError
        Where versions and feature lists contradict each other.
    UnsupportedFeatureError
        Where the table needs a reader version or a reader feature that this library lacks; it names them.
    """
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    if reader < 1 or writer < 1:
        raise CorruptLogError(f"protocol versions ({reader}, {writer}) begin at 1")
    if reader > _MAX_READER_VERSION:
        raise UnsupportedFeatureError(
            f"the table needs reader version {reader}, version {_MAX_READER_VERSION} is the highest known",
            hint="upgrade deltaberg",
            feature=f"minReaderVersion {reader}",
        )
    _check_lists(protocol)
    needed = [name for name in protocol.reader_features or () if name not in _READABLE]
    managed = sorted(_CATALOG.intersection(needed))
    if managed:
        raise UnsupportedFeatureError(
            "the table is managed by a catalog: which commits count is known to the catalog alone, and a path "
            "does not tell",
            hint="open it through its catalog, with an engine that supports catalog-managed tables",
            feature=", ".join(managed),
        )
    unknown = [name for name in needed if name not in WRITER_FEATURES]
    if unknown:
        raise UnsupportedFeatureError(
            f"the table needs reader features that are not supported: {', '.join(unknown)}",
            hint="upgrade deltaberg, or drop the features from the table",
            feature=", ".join(unknown),
        )


def _check_lists(protocol: Protocol) -> None:
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    versions = f"protocol ({reader}, {writer})"
    has_reader_list = protocol.reader_features is not None
    has_writer_list = protocol.writer_features is not None
    if reader == _TABLE_FEATURES_READER and writer != _TABLE_FEATURES_WRITER:
        raise CorruptLogError(f"{versions}: reader version 3 needs writer version 7")
    if has_reader_list != (reader == _TABLE_FEATURES_READER):
        what = "has no readerFeatures" if not has_reader_list else "has readerFeatures"
        raise CorruptLogError(f"{versions} {what}; the list exists exactly with reader version 3")
    if has_writer_list != (writer == _TABLE_FEATURES_WRITER):
        what = "has no writerFeatures" if not has_writer_list else "has writerFeatures"
        raise CorruptLogError(f"{versions} {what}; the list exists exactly with writer version 7")
    missing = sorted(set(protocol.reader_features or ()) - set(protocol.writer_features or ()))
    if missing:
        raise CorruptLogError(f"{versions} lists {', '.join(missing)} for readers and not for writers")


def misplaced_features(protocol: Protocol) -> list[str]:
    """Give the features that are listed for the wrong kind of client, as sentences; no row is wrong for it."""
    for_readers = protocol.reader_features
    if for_readers is None:
        return []
    writers_only = sorted(WRITER_FEATURES.intersection(for_readers))
    unlisted = sorted(READER_FEATURES.intersection(protocol.writer_features or ()).difference(for_readers))
    return [
        *(f"the protocol lists {name} for readers, which is a feature of writers alone" for name in writers_only),
        *(f"the protocol lists {name} for writers and not for readers, who must know it too" for name in unlisted),
    ]


def supported_features(protocol: Protocol) -> frozenset[str]:
    """Give the features that a table supports: those of its list, or those that its versions imply."""
    if protocol.min_writer_version >= _TABLE_FEATURES_WRITER:
        return frozenset(protocol.writer_features or ())
    return _implied(protocol.min_writer_version)


def supports(protocol: Protocol, feature: str) -> bool:
    """Say whether a table supports a feature."""
    return feature in supported_features(protocol)


def _implied(writer_version: int) -> frozenset[str]:
    by_version = {
        2: {"appendOnly", "invariants"},
        3: {"checkConstraints"},
        4: {"changeDataFeed", "generatedColumns"},
        5: {"columnMapping"},
        6: {"identityColumns"},
    }
    return frozenset(name for version, names in by_version.items() if version <= writer_version for name in names)


def reads_column_mapping(protocol: Protocol) -> bool:
    """Say whether a reader must honour the property ``delta.columnMapping.mode``."""
    if protocol.min_reader_version >= _TABLE_FEATURES_READER:
        return "columnMapping" in (protocol.reader_features or ())
    return protocol.min_reader_version >= _COLUMN_MAPPING_READER
