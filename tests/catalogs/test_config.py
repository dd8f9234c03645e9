"""Where the properties of a catalog come from, and which type they make."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import deltaberg
from deltaberg.catalogs.config import catalog_properties
from deltaberg.errors import InvalidArgumentError, MissingDependencyError, UnsupportedFeatureError

pytestmark = pytest.mark.one_backend

_FILE = """\
default-catalog: Lake
catalog:
  lake:
    type: sql
    uri: sqlite:///file.db
    Warehouse: 1.10
    rest.flag: no
    s3.endpoint: http://file:9000
    ssl:
      cabundle: /ca.pem
      client:
        cert: /cert.pem
  Other_One:
    uri: https://other
"""


def _put(directory: Path, text: str = _FILE) -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / ".pyiceberg.yaml"
    path.write_text(text)
    return path


def test_the_caller_counts_before_the_environment_and_that_before_the_file(
    no_configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _put(no_configuration)
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", "sqlite:///environment.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__S3__ACCESS_KEY_ID", "key")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__OAUTH2_SERVER_URI", "https://sso")
    monkeypatch.setenv("PYICEBERG_CATALOG__ELSE__URI", "sqlite:///else.db")
    given = {"s3.endpoint": "http://given:9000", "flag": True, "uri": None}
    assert catalog_properties("lake", given) == (
        "lake",
        {
            "type": "sql",
            "uri": "sqlite:///environment.db",
            # The file's scalars are text, as pyiceberg takes them: no YAML number, no YAML truth.
            "warehouse": "1.10",
            "rest.flag": "no",
            "s3.endpoint": "http://given:9000",
            "s3.access-key-id": "key",
            "oauth2-server-uri": "https://sso",
            "ssl.cabundle": "/ca.pem",
            "ssl.client.cert": "/cert.pem",
            "flag": "true",
        },
    )


def test_the_same_is_read_as_by_pyiceberg(no_configuration: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyiceberg.utils.config import Config

    _put(no_configuration, _FILE.partition("    ssl:")[0])
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", "sqlite:///environment.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__S3__SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__HEADER__X_TENANT", "me")
    assert catalog_properties("lake", {})[1] == Config().get_catalog_config("lake")
    assert catalog_properties(None, {})[0] == Config().get_default_catalog_name()


def test_the_first_file_is_read(no_configuration: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def uri() -> str | None:
        return catalog_properties("lake", {})[1].get("uri")

    text = "catalog: {lake: {uri: %s}}"
    assert uri() is None
    here = tmp_path / "here"
    _put(here, text % "working-directory")
    monkeypatch.chdir(here)
    assert uri() == "working-directory"
    _put(no_configuration, text % "home")
    assert uri() == "home"
    _put(tmp_path / "configured", text % "configured")
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path / "configured"))
    assert uri() == "configured"


def test_the_default_catalog(no_configuration: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert catalog_properties(None, {})[0] == "default"
    _put(no_configuration)
    assert catalog_properties(None, {})[0] == "Lake"
    assert catalog_properties(None, {})[1]["type"] == "sql"
    monkeypatch.setenv("PYICEBERG_DEFAULT_CATALOG", "other_one")
    assert catalog_properties(None, {}) == ("other_one", {"uri": "https://other"})


def test_a_name_with_underscores_is_found_in_both(no_configuration: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _put(no_configuration)
    monkeypatch.setenv("PYICEBERG_CATALOG__OTHER_ONE__TOKEN", "t")
    assert catalog_properties("other_one", {})[1] == {"uri": "https://other", "token": "t"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("catalog: {hush: [", "cannot be read"),
        ("catalog: !!python/object/apply:os.system [hush]", "is not a mapping"),
        ("- hush", "configuration of catalogs is not a mapping"),
        ("catalog: [hush]", "member catalog"),
        ("catalog: {lake: hush}", "configuration of catalog 'lake' is not a mapping"),
        ("catalog: \udcff", "cannot be read"),
    ],
)
def test_files_that_are_none_are_refused(text: str, message: str, no_configuration: Path) -> None:
    path = no_configuration / ".pyiceberg.yaml"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        catalog_properties("lake", {})
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "# nothing\n", "catalog:\n", "max-workers: 4\n"])
def test_files_without_catalogs_say_nothing(text: str, no_configuration: Path) -> None:
    _put(no_configuration, text)
    assert catalog_properties("lake", {}) == ("lake", {})


def test_yaml_is_asked_for_only_where_there_is_a_file(no_configuration: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert catalog_properties("lake", {"uri": "u"}) == ("lake", {"uri": "u"})
    _put(no_configuration)
    with pytest.raises(MissingDependencyError, match="needs PyYAML") as caught:
        catalog_properties("lake", {"uri": "u"})
    assert caught.value.hint is not None
    assert "deltaberg[yaml]" in caught.value.hint


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({"uri": "sqlite:///x.db"}, "SqlCatalog"),
        ({"uri": "postgresql+psycopg://h/db"}, "SqlCatalog"),
        ({"type": "SQL", "uri": "sqlite:///x.db"}, "SqlCatalog"),
        ({"type": "hadoop", "warehouse": "w"}, "FilesystemCatalog"),
    ],
)
def test_the_type_is_given_or_found_by_the_address(properties: Any, kind: str) -> None:
    assert type(deltaberg.load_catalog("c", **properties)).__name__ == kind


@pytest.mark.parametrize("kind", ["glue", "hive", "dynamodb", "unity", "bigquery", "in-memory"])
def test_types_that_are_not_built_are_refused(kind: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=f"type {kind} are not supported") as caught:
        deltaberg.load_catalog("c", type=kind, uri="thrift://h")
    assert caught.value.hint
    assert caught.value.context == {"catalog": "c", "feature": kind}


@pytest.mark.parametrize(
    ("properties", "error", "message"),
    [
        ({}, InvalidArgumentError, "type of the catalog 'c' is not known"),
        ({"uri": "h:1"}, InvalidArgumentError, "type of the catalog 'c' is not known"),
        ({"type": "nessie"}, InvalidArgumentError, "no catalog type 'nessie'"),
        ({"type": "hadoop"}, InvalidArgumentError, "no property warehouse"),
        ({"type": "sql"}, InvalidArgumentError, "no property uri"),
        ({"uri": "thrift://h:9083"}, UnsupportedFeatureError, "type hive"),
        ({"py-catalog-impl": "a.B"}, UnsupportedFeatureError, "classes of other packages"),
    ],
)
def test_what_is_missing_is_said(properties: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        deltaberg.load_catalog("c", **properties)


def test_options_of_stores_are_passed_on_and_not_shown() -> None:
    properties = {"s3.secret-access-key": "hush", "warehouse": "s3://bucket/w", "unknown": "x"}
    catalog: Any = deltaberg.load_catalog("c", type="hadoop", **properties)
    assert dict(catalog._store.options) == {"s3.secret-access-key": "hush"}
    assert "hush" not in repr(catalog) + repr(vars(catalog))


@pytest.mark.parametrize("uri", ["postgres://h/db", "mysql://h/db", "sqlite:///x.db", "https://h"])
@pytest.mark.parametrize("place", ["name", "warehouse", "hadoop", "type"])
def test_an_address_in_a_wrong_place_is_told_where_it_belongs(uri: str, place: str) -> None:
    right = "rest" if uri.startswith("https") else "sql"
    wrong = "sql" if right == "rest" else "rest"
    calls: dict[str, Any] = {
        "name": lambda: deltaberg.load_catalog(uri),
        "warehouse": lambda: deltaberg.load_catalog("c", warehouse=uri),
        "hadoop": lambda: deltaberg.load_catalog("c", type="hadoop", warehouse=uri),
        "type": lambda: deltaberg.load_catalog("c", type=wrong, uri=uri),
    }
    with pytest.raises(InvalidArgumentError, match="address") as caught:
        calls[place]()
    assert caught.value.hint is not None
    assert ("as uri" if place == "name" else f"type='{right}'") in caught.value.hint


def test_mappings_are_flattened_as_those_of_the_file() -> None:
    given = {"uri": "u", "auth": {"type": "Basic", "basic": {"username": "me"}}, "s3": {"region": "r"}, "none": None}
    wanted = {"uri": "u", "auth.type": "Basic", "auth.basic.username": "me", "s3.region": "r"}
    assert catalog_properties("lake", given) == ("lake", wanted)


def test_authentication_that_is_given_as_a_mapping_is_not_passed_over() -> None:
    with pytest.raises(UnsupportedFeatureError, match="authentication of type 'basic'"):
        deltaberg.load_catalog("c", uri="https://h", auth={"type": "basic", "basic": {"password": "hush"}})


@pytest.mark.parametrize("auth", ["hush", {"basic": {"password": "hush"}}, {"type": ""}])
def test_authentication_without_a_type_is_not_passed_over(auth: Any) -> None:
    with pytest.raises(UnsupportedFeatureError, match="does not name a supported type") as caught:
        deltaberg.load_catalog("c", uri="https://h", auth=auth)
    assert "hush" not in str(caught.value)


def test_no_authentication_may_be_asked_for() -> None:
    assert deltaberg.load_catalog("c", uri="https://h", auth={"type": "noop"}).name == "c"


@pytest.mark.parametrize("value", [b"hush", ["hush"], object(), {"x": ("hush",)}])
def test_values_that_are_no_text_are_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"the property token(\.x)? is a \w+") as caught:
        deltaberg.load_catalog("c", uri="https://h", token=value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("name", [5, b"x", ["lake"]])
def test_a_name_that_is_no_text_is_refused(name: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="the name of a catalog is of type"):
        deltaberg.load_catalog(name)


def test_paths_and_numbers_are_taken(tmp_path: Path) -> None:
    given: Any = {"warehouse": tmp_path, "retries": 3, "flag": True}
    wanted = {"warehouse": str(tmp_path), "retries": "3", "flag": "true"}
    assert catalog_properties("lake", given)[1] == wanted
