"""Protocols that support given features: the lowest one of a new table, and the rise of an existing one's.

Delta protocol, "Table Features".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from deltaberg.delta.actions.table_actions import Protocol
from deltaberg.delta.features import FEATURES, not_done, refuse_features, supported_features
from deltaberg.delta.schema.writer_rules import features_of_rules
from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import shown_value
from deltaberg.schema.types import DataType, Primitive, Struct, inner_types
from deltaberg.whole_numbers import whole_number

__all__ = ["features_of_properties", "features_of_schema", "lowered_protocol", "raised_protocol"]

#: What every writer that knows properties also knows, so that new tables begin with these versions.
_FIRST = Protocol(1, 2)
_LISTING_READER, _LISTING_WRITER = 3, 7
_SUPPORT = "delta.feature."
_CONSTRAINTS = "delta.constraints."
_READER_VERSION, _WRITER_VERSION = "delta.minReaderVersion", "delta.minWriterVersion"
_POLICY = "delta.checkpointPolicy"
_FEATURES_OF_TYPES: dict[DataType, str] = {
    Primitive("timestamp_ntz"): "timestampNtz",
    Primitive("variant"): "variantType",
}


def features_of_schema(schema: Struct) -> set[str]:
    """Return the features that the types of columns need, and the rules that are recorded with them."""
    types = {_FEATURES_OF_TYPES[kind] for kind in inner_types(schema) if kind in _FEATURES_OF_TYPES}
    return types | features_of_rules(schema)


def features_of_properties(properties: Mapping[str, str]) -> tuple[set[str], dict[str, str]]:
    """Return the features that properties ask for or activate, and the properties that a table records.

    ``delta.feature.NAME`` and the properties with protocol versions are requests: they are not recorded.

    Raises
    ------
    InvalidArgumentError
        The value of a request is not valid.
    UnsupportedFeatureError
        A feature is unknown, or is not written by this library.

    Examples
    --------
    >>> features_of_properties({"delta.feature.deletionVectors": "supported", "delta.appendOnly": "true"})[1]
    {'delta.appendOnly': 'true'}
    """
    features, kept = set(), {}
    for name, value in properties.items():
        if name.startswith(_SUPPORT):
            if value.strip().lower() not in ("supported", "enabled"):
                raise InvalidArgumentError(f"the property {name} must be supported, not {shown_value(value)}")
            features.add(name.removeprefix(_SUPPORT))
        elif name in (_READER_VERSION, _WRITER_VERSION):
            features |= _features_of_version(name, value)
        else:
            kept[name] = value
    for feature in FEATURES.values():
        if feature.activated_by is not None:
            activating, values = feature.activated_by
            # If a feature has a preview, the property asks for the feature itself.
            if kept.get(activating, "").strip().lower() in values and not feature.name.endswith("-preview"):
                features.add(feature.name)
    if kept.get(_POLICY, "").strip().lower() == "v2":
        features.add("v2Checkpoint")
    if any(name.startswith(_CONSTRAINTS) for name in kept):
        features.add("checkConstraints")
    _check_written(features)
    return _with_dependencies(features), kept


def _features_of_version(name: str, value: str) -> set[str]:
    """Return the features that a protocol version implies, which a caller asks for by a property."""
    highest = _LISTING_READER if name == _READER_VERSION else _LISTING_WRITER
    version = whole_number(value.strip())
    if version is None or not 1 <= version <= highest:
        raise InvalidArgumentError(
            f"the property {name} must be a version from 1 to {highest}, not {shown_value(value)}"
        )
    if version == highest:
        return set()
    if name == _READER_VERSION:
        return {
            known.name for known in FEATURES.values() if known.min_reader is not None and known.min_reader <= version
        }
    return set(supported_features(Protocol(1, version)))


def _check_written(names: Iterable[str]) -> None:
    refuse_features(
        sorted(not_done(names)),
        "no table with these features can be written yet",
        "leave out the columns or properties that need them",
    )


def _with_dependencies(names: Iterable[str]) -> set[str]:
    found = set(names)
    for name in names:
        found |= set(FEATURES[name].depends_on)
    return found


def raised_protocol(features: Iterable[str], before: Protocol | None = None) -> Protocol:
    """Return the lowest protocol that supports features, and whatever another protocol supports.

    Versions without lists of features are used where they imply all of them.

    Parameters
    ----------
    features
        The names of the features.
    before
        The protocol of the table; None for a new table. It is returned as it is if it supports the features.

    Raises
    ------
    UnsupportedFeatureError
        A feature is unknown, or is not written by this library.

    Examples
    --------
    >>> raised_protocol(["columnMapping"])
    Protocol(min_reader_version=2, min_writer_version=5, reader_features=None, writer_features=None)
    >>> raised_protocol(["clustering"]).writer_features
    ('appendOnly', 'clustering', 'domainMetadata', 'invariants')
    """
    _check_written(features)
    needed = _with_dependencies(features)
    old = _FIRST if before is None else before
    had = supported_features(old)
    if needed <= had:
        return old
    listed = old.min_writer_version >= _LISTING_WRITER
    if not listed and all(FEATURES[name].min_writer is not None for name in needed):
        described = [FEATURES[name] for name in needed]
        reader = max(old.min_reader_version, *(feature.min_reader or 1 for feature in described))
        writer = max(old.min_writer_version, *(feature.min_writer or 1 for feature in described))
        return old.with_members({"minReaderVersion": reader, "minWriterVersion": writer})
    together = sorted(had | needed)
    for_readers = [name for name in together if name in FEATURES and FEATURES[name].for_readers]
    # A feature that is not known here is where the table had it.
    for_readers = sorted({*for_readers, *(old.reader_features or ())})
    lists = bool(for_readers) and (
        old.min_reader_version >= _LISTING_READER or any(FEATURES[name].for_readers for name in needed)
    )
    members: dict[str, object] = {"minWriterVersion": _LISTING_WRITER, "writerFeatures": together}
    if lists:
        members |= {"minReaderVersion": _LISTING_READER, "readerFeatures": for_readers}
    else:
        # A writer version may have implied what readers did not have to support.
        least = [FEATURES[name].min_reader or 1 for name in together if name in FEATURES]
        members["minReaderVersion"] = max(old.min_reader_version, *least)
    return old.with_members(members)


def lowered_protocol(feature: str, before: Protocol) -> Protocol:
    """Return a protocol without a feature.

    If versions without lists of features imply exactly what remains, they are used.

    Examples
    --------
    >>> lowered_protocol("clustering", Protocol(1, 7, None, ("appendOnly", "clustering", "invariants")))
    Protocol(min_reader_version=1, min_writer_version=2, reader_features=None, writer_features=None)
    >>> lowered_protocol("invariants", Protocol(1, 2)).writer_features
    ('appendOnly',)
    """
    remaining = supported_features(before) - {feature}
    without_lists: dict[str, object] = {"readerFeatures": None, "writerFeatures": None}
    for writer in range(1, _LISTING_WRITER):
        implied = supported_features(Protocol(1, writer))
        if implied == remaining:
            reader = max((FEATURES[name].min_reader or 1 for name in implied), default=1)
            return before.with_members({**without_lists, "minReaderVersion": reader, "minWriterVersion": writer})
    members: dict[str, object] = {"minWriterVersion": _LISTING_WRITER, "writerFeatures": sorted(remaining)}
    if feature in (before.reader_features or ()):
        kept = sorted(set(before.reader_features or ()) - {feature})
        members |= {"readerFeatures": kept or None, "minReaderVersion": _LISTING_READER if kept else 1}
    elif before.min_reader_version < _LISTING_READER:
        members["minReaderVersion"] = max((FEATURES[name].min_reader or 1 for name in remaining), default=1)
    return before.with_members(members)
