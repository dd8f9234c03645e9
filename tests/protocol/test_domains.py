"""Metadata domains (DL-DOM)."""

from __future__ import annotations

from typing import Any

import pytest

from deltaberg import open_table
from deltaberg.errors import CorruptLogError
from tests.support.delta_builder import DeltaBuilder
from tests.support.delta_checkpoints import Action
from tests.support.roads import by_every_road
from tests.support.rows import ID, ids, ids_of


def _domain(name: str, configuration: str, removed: bool = False) -> Action:
    return {"domainMetadata": {"domain": name, "configuration": configuration, "removed": removed}}


@pytest.mark.req("DL-DOM-01", half="reader")
@pytest.mark.parametrize("configuration", ['{"key1":"value1"}', "", "no JSON", '{"a":"\\u00e9\\n"}', "é€𝄞"])
@pytest.mark.parametrize("kind", [None, "classic", "uuid-json", "uuid-parquet"])
def test_a_configuration_is_opaque_text(builder: DeltaBuilder, configuration: str, kind: str | None) -> None:
    builder.create(ID, _domain("delta.deltaTableFeatureX", configuration), protocol=builder.features("v2Checkpoint"))
    if kind is not None:
        builder.checkpoint(kind=kind)
        (builder.log / f"{0:020d}.json").unlink()
    assert open_table(builder.root, "delta").domain_metadata == {"delta.deltaTableFeatureX": configuration}


@pytest.mark.req("DL-DOM-01", half="reader")
@pytest.mark.parametrize(("field", "wrong"), [("domain", 1), ("configuration", {"key1": "value1"}), ("removed", "no")])
def test_the_fields_of_a_domain_have_types(builder: DeltaBuilder, field: str, wrong: Any) -> None:
    action = _domain("d", "{}")
    action["domainMetadata"][field] = wrong
    builder.create(ID, action)
    with pytest.raises(CorruptLogError, match=field):
        open_table(builder.root)
    del action["domainMetadata"][field]
    builder.commit(action, version=0)
    with pytest.raises(CorruptLogError, match=f"domainMetadata has no {field}"):
        open_table(builder.root)


@by_every_road
@pytest.mark.req("DL-DOM-03")
@pytest.mark.parametrize("kind", [None, "classic", "uuid-json", "uuid-parquet"])
def test_unknown_domains_are_returned(builder: DeltaBuilder, kind: str | None) -> None:
    """Neither the feature nor the domain need be known, or even listed, to reconcile it."""
    known = [_domain("org.apache.x", '{"a":1}'), _domain("org.apache.y", "old"), _domain("org.apache.z", "z")]
    builder.create(ID, *known, builder.add(ids(1)), protocol=builder.features("v2Checkpoint"))
    builder.commit(_domain("org.apache.y", "new"))
    if kind is not None:
        builder.checkpoint(kind=kind)
    builder.commit(_domain("org.apache.z", "z", removed=True))
    table = open_table(builder.root, "delta")
    assert table.domain_metadata == {"org.apache.x": '{"a":1}', "org.apache.y": "new"}
    assert ids_of(table) == [1]
    builder.commit(_domain("org.apache.z", "back"), _domain("org.apache.x", "", removed=True))
    assert table.refresh().domain_metadata == {"org.apache.y": "new", "org.apache.z": "back"}


@pytest.mark.parametrize("kind", ["classic", "uuid-json", "uuid-parquet"])
def test_a_removed_domain_of_a_checkpoint_is_not_returned(builder: DeltaBuilder, kind: str) -> None:
    """Checkpoints need not hold it; one that does says that it is gone."""
    builder.create(ID, protocol=builder.features("v2Checkpoint"))
    gone, kept = _domain("gone", "x", removed=True), _domain("kept", "y")
    builder.checkpoint(0, kind=kind, actions=[*builder.table_actions(0), gone, kept])
    (builder.log / f"{0:020d}.json").unlink()
    assert open_table(builder.root, "delta").domain_metadata == {"kept": "y"}
