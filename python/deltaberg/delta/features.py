"""Table features: one table of what each needs, and what a protocol says by it (Delta protocol, "Table Features")."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from deltaberg.delta.actions.table_actions import Protocol
from deltaberg.errors import CorruptLogError, UnsupportedFeatureError

__all__ = [
    "DROPPED",
    "FEATURES",
    "MAPPING_MODE",
    "READ_ELSEWHERE",
    "Feature",
    "active_features",
    "check_known_writers",
    "check_protocol",
    "check_written",
    "dropped_protocol",
    "feature_violations",
    "not_done",
    "reads_column_mapping",
    "recorded_mapping_mode",
    "refuse_features",
    "supported_features",
    "supports",
    "undropped_protocol",
]


class Feature(NamedTuple):
    """The requirements of one table feature.

    Parameters
    ----------
    name
        Its name in the feature lists of the protocol; case matters.
    for_readers
        Whether readers must support it too; else it concerns writers only.
    min_reader, min_writer
        The lowest protocol versions without feature lists that imply it; None if it is only ever listed.
    activated_by
        The property that activates it where it is supported, and the values that do so, whatever their case. Features
        without one are active wherever they are supported.
    depends_on
        The features that a protocol must list beside it.
    needs_catalog
        Whether only a catalog knows which commits count. Tables with such a feature are neither read nor written.
    """

    name: str
    for_readers: bool = False
    min_reader: int | None = None
    min_writer: int | None = None
    activated_by: tuple[str, tuple[str, ...]] | None = None
    depends_on: tuple[str, ...] = ()
    needs_catalog: bool = False


#: What other libraries make of a table with a feature that hints propose, as `docs/readers.md` says.
READ_ELSEWHERE: Mapping[str, str] = {
    "columnMapping": "deltalake may then give wrong rows, and polars refuses the table",
    "typeWidening": "deltalake and polars refuse a table with a column that was widened",
}


def _switch(name: str) -> tuple[str, tuple[str, ...]]:
    return f"delta.{name}", ("true",)


#: The property that activates column mapping.
MAPPING_MODE = "delta.columnMapping.mode"

#: Every known feature by name: those of the protocol's appendix first, then later ones, previews and former names.
FEATURES: dict[str, Feature] = {
    feature.name: feature
    for feature in (
        Feature("appendOnly", min_writer=2, activated_by=_switch("appendOnly")),
        Feature("invariants", min_writer=2),
        Feature("checkConstraints", min_writer=3),
        Feature("changeDataFeed", min_writer=4, activated_by=_switch("enableChangeDataFeed")),
        Feature("generatedColumns", min_writer=4),
        Feature(
            "columnMapping", for_readers=True, min_reader=2, min_writer=5, activated_by=(MAPPING_MODE, ("name", "id"))
        ),
        Feature("identityColumns", min_writer=6),
        Feature("allowColumnDefaults"),
        Feature("deletionVectors", for_readers=True, activated_by=_switch("enableDeletionVectors")),
        Feature("rowTracking", activated_by=_switch("enableRowTracking"), depends_on=("domainMetadata",)),
        Feature("timestampNtz", for_readers=True),
        Feature("domainMetadata"),
        Feature("v2Checkpoint", for_readers=True),
        Feature("icebergCompatV1", activated_by=_switch("enableIcebergCompatV1"), depends_on=("columnMapping",)),
        Feature("icebergCompatV2", activated_by=_switch("enableIcebergCompatV2"), depends_on=("columnMapping",)),
        Feature("clustering", depends_on=("domainMetadata",)),
        Feature("inCommitTimestamp", activated_by=_switch("enableInCommitTimestamps")),
        Feature("typeWidening", for_readers=True, activated_by=_switch("enableTypeWidening")),
        Feature("typeWidening-preview", for_readers=True, activated_by=_switch("enableTypeWidening")),
        Feature("variantType", for_readers=True),
        Feature("variantType-preview", for_readers=True),
        Feature("variantShredding", for_readers=True, activated_by=_switch("enableVariantShredding")),
        Feature("variantShredding-preview", for_readers=True, activated_by=_switch("enableVariantShredding")),
        Feature("vacuumProtocolCheck", for_readers=True),
        Feature("checkpointProtection"),
        Feature("timestampWithoutTimezone", for_readers=True),
        Feature("catalogManaged", for_readers=True, needs_catalog=True),
        Feature("catalogOwned", for_readers=True, needs_catalog=True),
        Feature("catalogOwned-preview", for_readers=True, needs_catalog=True),
        Feature("coordinatedCommits-preview", needs_catalog=True),
    )
}
#: What the last version of a table that is being dropped demands of readers, so that none of them opens it.
DROPPED = "deltaberg.dropped"
#: The highest versions, from which on the protocol lists features.
_LISTING_READER, _LISTING_WRITER = 3, 7


def check_protocol(protocol: Protocol) -> None:
    """Refuse a table that this library cannot read.

    Raises
    ------
    CorruptLogError
        If versions and feature lists contradict each other.
    UnsupportedFeatureError
        If the table needs a reader version or a reader feature that this library lacks; the message names it.
    """
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    if reader < 1 or writer < 1:
        raise CorruptLogError(f"protocol versions ({reader}, {writer}) begin at 1")
    _check_version("the table needs reader version", reader, _LISTING_READER, "minReaderVersion")
    _check_lists(protocol)
    unread = not_done(protocol.reader_features or ())
    managed = sorted(name for name in unread if name in FEATURES)
    if managed:
        raise UnsupportedFeatureError(
            "the table is managed by a catalog: only the catalog knows which commits count, so the table cannot be "
            "opened by its path",
            hint="open it through its catalog, with an engine that supports catalog-managed tables",
            feature=", ".join(managed),
        )
    if DROPPED in unread:
        raise UnsupportedFeatureError(
            "the table was dropped, and what is left of its files is about to go",
            hint="drop it again if that was interrupted",
            feature=DROPPED,
        )
    refuse_features(
        unread,
        "the table needs reader features that are not supported",
        "upgrade deltaberg, or drop the features from the table",
    )


def dropped_protocol(protocol: Protocol) -> Protocol:
    """Return the protocol of the version by which a table is dropped."""
    names = supported_features(protocol)
    reading = {name for name in names if name not in FEATURES or FEATURES[name].for_readers}
    lists = (tuple(sorted({*some, DROPPED})) for some in (reading, names))
    return Protocol(_LISTING_READER, _LISTING_WRITER, *lists)


def undropped_protocol(protocol: Protocol) -> Protocol | None:
    """Return the protocol without what drops the table; None if nothing does."""
    readers, writers = protocol.reader_features or (), protocol.writer_features or ()
    if DROPPED not in readers:
        return None
    lists = (tuple(name for name in names if name != DROPPED) for names in (readers, writers))
    return Protocol(protocol.min_reader_version, protocol.min_writer_version, *lists)


def not_done(names: Iterable[str]) -> list[str]:
    """Return the features that this library neither reads nor writes, or does not know."""
    return [name for name in names if name not in FEATURES or FEATURES[name].needs_catalog]


def refuse_features(names: Collection[str], message: str, hint: str) -> None:
    """Refuse features, if there are any.

    Raises
    ------
    UnsupportedFeatureError
        There are.
    """
    if names:
        listed = ", ".join(names)
        raise UnsupportedFeatureError(f"{message}: {listed}", hint=hint, feature=listed)


def check_written(protocol: Protocol) -> None:
    """Refuse a table that this library cannot write.

    A listed feature counts even where no property activates it.

    Raises
    ------
    UnsupportedFeatureError
        If the table needs a writer version or a writer feature that this library lacks; the message names it.
    """
    _check_writer_version(protocol)
    refuse_features(
        sorted(not_done(supported_features(protocol))),
        "writing to the table needs features that are not supported",
        "upgrade deltaberg, or write with an engine that supports them; reading works",
    )


def check_known_writers(protocol: Protocol) -> None:
    """Refuse to maintain the log of a table that has writer features which this library does not know.

    Checkpoints and clean-up repeat what the log holds. They need to know every feature, because one might forbid them,
    but they need not be able to write rows of the table.

    Raises
    ------
    UnsupportedFeatureError
        If the table needs an unknown writer version or writer feature, or is managed by a catalog.
    """
    _check_writer_version(protocol)
    refuse_features(
        not_done(protocol.writer_features or ()),
        "the table needs writer features that are not supported",
        "upgrade deltaberg, or leave the maintenance of the log to the engine that writes the table",
    )


def _check_writer_version(protocol: Protocol) -> None:
    needs = "writing to the table needs writer version"
    _check_version(needs, protocol.min_writer_version, _LISTING_WRITER, "minWriterVersion")


def _check_version(needs: str, version: int, highest: int, member: str) -> None:
    if version > highest:
        raise UnsupportedFeatureError(
            f"{needs} {version}, but {highest} is the highest known version",
            hint="upgrade deltaberg",
            feature=f"{member} {version}",
        )


def _check_lists(protocol: Protocol) -> None:
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    versions = f"protocol ({reader}, {writer})"
    if reader == _LISTING_READER and writer != _LISTING_WRITER:
        raise CorruptLogError(f"{versions}: reader version 3 needs writer version 7")
    for name, features, listing, kind in (
        ("readerFeatures", protocol.reader_features, reader == _LISTING_READER, "reader version 3"),
        ("writerFeatures", protocol.writer_features, writer == _LISTING_WRITER, "writer version 7"),
    ):
        if (features is not None) != listing:
            raise CorruptLogError(
                f"{versions} has {'no ' if listing else ''}{name}; the list must exist with {kind}, and only then"
            )
    missing = sorted(set(protocol.reader_features or ()) - set(protocol.writer_features or ()))
    if missing:
        raise CorruptLogError(f"{versions} lists {', '.join(missing)} in readerFeatures but not in writerFeatures")


def feature_violations(protocol: Protocol) -> list[str]:
    """Return a sentence for each known feature that is in the wrong list, or lacks a feature that it depends on.

    Such a table can still be read correctly, so only a validating reader refuses it.

    Examples
    --------
    >>> feature_violations(Protocol(1, 7, None, ("rowTracking",)))
    ['the protocol lists rowTracking without domainMetadata, which it depends on']
    """
    listed = sorted(protocol.writer_features or ())
    for_readers = set(protocol.reader_features or ())
    features = [FEATURES[name] for name in listed if name in FEATURES]
    return [
        *(
            f"the protocol lists {feature.name} in readerFeatures, but only writers need to support it"
            for feature in features
            if feature.name in for_readers and not feature.for_readers
        ),
        *(
            f"the protocol lists {feature.name} in writerFeatures, but readers need to support it, too"
            for feature in features
            if feature.for_readers and not _readers_support(protocol, feature)
        ),
        *(
            f"the protocol lists {feature.name} without {name}, which it depends on"
            for feature in features
            for name in feature.depends_on
            if name not in listed
        ),
    ]


def supported_features(protocol: Protocol) -> frozenset[str]:
    """Return the features that a table supports: those that its protocol lists, or that its versions imply."""
    if protocol.min_writer_version >= _LISTING_WRITER:
        return frozenset(protocol.writer_features or ())
    return frozenset(
        feature.name
        for feature in FEATURES.values()
        if feature.min_writer is not None and feature.min_writer <= protocol.min_writer_version
    )


def supports(protocol: Protocol, feature: str) -> bool:
    """Return whether a table supports a feature."""
    return feature in supported_features(protocol)


def active_features(protocol: Protocol, properties: Mapping[str, str]) -> frozenset[str]:
    """Return the supported features that the metadata makes use of.

    Examples
    --------
    >>> sorted(active_features(Protocol(1, 2), {"delta.appendOnly": "true"}))
    ['appendOnly', 'invariants']
    """
    return frozenset(name for name in supported_features(protocol) if _is_active(name, protocol, properties))


def _is_active(name: str, protocol: Protocol, properties: Mapping[str, str]) -> bool:
    feature = FEATURES.get(name)
    if feature is None or feature.activated_by is None:
        return True
    if feature.for_readers and not _readers_support(protocol, feature):
        return False
    activating, values = feature.activated_by
    return properties.get(activating, "").strip().lower() in values


def recorded_mapping_mode(properties: Mapping[str, str]) -> str:
    """Return the value of ``delta.columnMapping.mode`` in lower case, as delta-spark also reads capital letters."""
    return properties.get(MAPPING_MODE, "none").strip().lower()


def reads_column_mapping(protocol: Protocol) -> bool:
    """Return whether a reader must respect the property ``delta.columnMapping.mode``."""
    return _readers_support(protocol, FEATURES["columnMapping"])


def _readers_support(protocol: Protocol, feature: Feature) -> bool:
    """Return whether the protocol makes readers support a feature: by its list, or by a version that implies it."""
    if protocol.min_reader_version >= _LISTING_READER:
        return feature.name in (protocol.reader_features or ())
    return feature.min_reader is not None and feature.min_reader <= protocol.min_reader_version
