"""Which features a table can lose, and what must be gone before (Delta protocol, "Table Features").

Only a procedure that knows a feature may take it from the protocol: writers that do not know it must not be able to
break what is left of it. A feature that older versions of the table need goes by several commits, which one alteration
cannot make.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from deltaberg.delta.actions.domains import CLUSTERING_DOMAIN, ROW_TRACKING_DOMAIN, clustering_columns
from deltaberg.delta.features import FEATURES, Feature, active_features, supported_features
from deltaberg.delta.schema.writer_rules import (
    check_constraints,
    column_defaults,
    column_invariants,
    generation_expressions,
    identity_columns,
)
from deltaberg.delta.snapshot.snapshot import Snapshot
from deltaberg.errors import InvalidArgumentError, UnsupportedFeatureError
from deltaberg.table.arguments import checked_text

__all__ = ["OF_HISTORY", "PROTECTION", "check_droppable", "check_supported"]

#: Features that only other features or the history make use of, so that nothing of the table itself shows a trace.
_UNCHECKED = frozenset({"clustering", "domainMetadata"})
PROTECTION = "checkpointProtection"
#: Features that can be dropped, and that older versions need.
OF_HISTORY = frozenset(
    {"columnMapping", "deletionVectors", "typeWidening", "typeWidening-preview", "v2Checkpoint", PROTECTION}
)


def _constraints(table: Snapshot) -> Mapping[str, object]:
    return check_constraints(table.metadata.configuration)


def _invariants(table: Snapshot) -> Mapping[str, object]:
    # Other engines take columns that must not be null for invariants.
    required = {child.name: True for child in table.schema if not child.nullable}
    return {**required, **column_invariants(table.schema)}


def _domains(table: Snapshot) -> Mapping[str, object]:
    return {name: True for name in table.domains if name not in (CLUSTERING_DOMAIN, ROW_TRACKING_DOMAIN)}


def _clustering(table: Snapshot) -> Mapping[str, object]:
    return {".".join(path): True for path in clustering_columns(table.domains)}


#: What a table holds that a feature is needed for, by name, and how it is taken away.
_TRACES: dict[str, tuple[Callable[[Snapshot], Mapping[str, object]], str]] = {
    "allowColumnDefaults": (lambda table: column_defaults(table.schema), "call ⟪alter().set_default(name, None)⟫"),
    "checkConstraints": (_constraints, "call ⟪alter().drop_constraint(name)⟫"),
    "clustering": (_clustering, "call ⟪alter().cluster_by()⟫ without names"),
    "domainMetadata": (_domains, "remove the domains: ⟪transaction().set_domain(name, None)⟫"),
    "generatedColumns": (lambda table: generation_expressions(table.schema), "drop the columns"),
    "identityColumns": (lambda table: identity_columns(table.schema), "drop the columns"),
    "invariants": (_invariants, "call ⟪alter().drop_not_null(name)⟫, or drop the columns"),
}


def check_droppable(table: Snapshot, name: str) -> None:
    """Refuse to take a feature by one commit from a table that does not have it, or still needs it.

    Raises
    ------
    InvalidArgumentError
        The table does not support the feature, makes use of it, or supports another one that depends on it; or several
        commits are needed.
    UnsupportedFeatureError
        Nobody knows how to take it away.
    """
    feature = check_supported(table, name)
    if name in OF_HISTORY:
        raise InvalidArgumentError(
            f"the feature {name} cannot be dropped by one commit, because older versions need it",
            hint="call ⟪drop_feature(name)⟫ of the table",
        )
    if name == "vacuumProtocolCheck":
        return
    if feature.activated_by is not None:
        if name in active_features(table.protocol, table.metadata.configuration):
            activating, _ = feature.activated_by
            raise InvalidArgumentError(
                f"the feature {name} cannot be dropped while the property {activating} is true",
                hint=f"call ⟪alter().unset({activating!r})⟫ first",
            )
        return
    found, hint = _TRACES[name]
    left = sorted(found(table))
    if left:
        raise InvalidArgumentError(
            f"the feature {name} cannot be dropped, because the table makes use of it: {', '.join(left)}",
            hint=f"{hint} first",
        )


def check_supported(table: Snapshot, name: str) -> Feature:
    """Return a feature that a table can lose.

    Raises
    ------
    InvalidArgumentError
        The table does not support the feature, or supports another one that depends on it.
    UnsupportedFeatureError
        Nobody knows how to take it away.
    """
    checked_text("the name of a feature", name, "pass a name such as domainMetadata")
    supported = supported_features(table.protocol)
    if name not in supported:
        raise InvalidArgumentError(f"the table does not support the feature {name}")
    feature = FEATURES.get(name)
    is_known = name in OF_HISTORY or name == "vacuumProtocolCheck"
    if feature is None or (feature.for_readers and not is_known):
        raise UnsupportedFeatureError(
            f"the feature {name} cannot be dropped: nothing takes it from the columns or files of the table",
            hint="leave it in the protocol, or write the rows to a new table",
            feature=name,
        )
    dependent = sorted(
        known.name for known in FEATURES.values() if known.name in supported and name in known.depends_on
    )
    if dependent:
        raise InvalidArgumentError(
            f"the feature {name} cannot be dropped, because {dependent[0]} depends on it",
            hint=f"drop {dependent[0]} first",
        )
    return feature
