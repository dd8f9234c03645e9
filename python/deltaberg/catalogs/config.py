"""The properties of a catalog: from the caller, the environment, and the configuration file of pyiceberg."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from deltaberg.errors import InvalidArgumentError, MissingDependencyError

__all__ = ["catalog_properties"]

_FILE = ".pyiceberg.yaml"
_PREFIX = "pyiceberg_"
_DEFAULT = "default"


def catalog_properties(name: str | None, properties: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Return the name of a catalog and its properties.

    Properties of the caller take precedence over the environment (``PYICEBERG_CATALOG__<NAME>__<KEY>``), and those over
    the first file ``.pyiceberg.yaml`` in the directory ``PYICEBERG_HOME``, the home directory or the working directory.

    A mapping in place of a value stands for several properties with a common prefix: ``{"auth": {"type": "none"}}`` is
    ``{"auth.type": "none"}``.

    Raises
    ------
    MissingDependencyError
        If there is such a file, but PyYAML is not installed.
    InvalidArgumentError
        If the file is not a mapping of names to properties, or a property is neither text nor a number.
    """
    configured = _from_file()
    environment = _from_environment()
    if name is None:
        chosen = environment.get("default-catalog") or configured.get("default-catalog") or _DEFAULT
        name = chosen if isinstance(chosen, str) else _DEFAULT
    found = _of_catalog(configured, name) | _of_catalog(environment, name)
    return name, found | dict(_flat(properties, str))


def _of_catalog(config: Mapping[str, Any], name: str) -> dict[str, str]:
    catalogs = config.get("catalog") or {}
    if not isinstance(catalogs, dict):
        raise InvalidArgumentError("the member catalog of the configuration is not a mapping", path=_FILE)
    settings: dict[str, str] = {}
    for spelling, properties in catalogs.items():
        if _spelled(str(spelling)) != _spelled(name):
            continue
        if not isinstance(properties, dict):
            raise InvalidArgumentError(f"the configuration of catalog {name!r} is not a mapping", path=_FILE)
        settings |= dict(_flat(properties, str.lower))
    return settings


def _spelled(name: str) -> str:
    """Spell a name for comparison: environment variables have neither hyphens nor lower case."""
    return name.lower().replace("_", "-")


def _flat(properties: Mapping[Any, Any], spell: Callable[[str], str], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in properties.items():
        spelled = f"{prefix}{spell(str(key))}"
        if isinstance(value, Mapping):
            yield from _flat(value, spell, f"{spelled}.")
        elif value is not None:
            yield spelled, _text(spelled, value)


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, (str, int, float)):
        # The value is not shown, because it may be a secret.
        raise InvalidArgumentError(
            f"the property {name} is a {type(value).__name__}", hint="pass a string, a number, or a mapping of those"
        )
    return str(text)


def _from_environment() -> dict[str, Any]:
    config: dict[str, Any] = {}
    for variable, value in os.environ.items():
        name = variable.lower()
        if name == f"{_PREFIX}default_catalog":
            config["default-catalog"] = value
        parts = name.split("__", maxsplit=2)
        if len(parts) == 3 and parts[0] == f"{_PREFIX}catalog":
            # In the name of a property, two underscores stand for a dot, and one for a hyphen.
            key = parts[2].replace("__", ".").replace("_", "-")
            config.setdefault("catalog", {}).setdefault(parts[1], {})[key] = value
    return config


def _from_file() -> dict[str, Any]:
    for directory in (os.environ.get("PYICEBERG_HOME"), os.path.expanduser("~"), os.getcwd()):
        path = os.path.join(directory, _FILE) if directory else ""
        if path and os.path.isfile(path):
            return _read(path)
    return {}


def _read(path: str) -> dict[str, Any]:
    try:
        import yaml
    except ImportError as error:
        raise MissingDependencyError(
            f"reading {_FILE} needs PyYAML", hint="pip install 'deltaberg[yaml]', or remove the file", path=path
        ) from error
    try:
        with open(path, encoding="utf-8") as file:
            # This loader reads every scalar as text, as pyiceberg does: "no" is a word, and 1.10 a version.
            config = yaml.load(file, Loader=yaml.BaseLoader)  # noqa: S506
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        # The message of the error quotes the file, which can contain secrets.
        raise InvalidArgumentError(
            "the configuration of catalogs cannot be read", path=path, line=None if line is None else line + 1
        ) from None
    if config in (None, ""):
        return {}
    if not isinstance(config, dict):
        raise InvalidArgumentError("the configuration of catalogs is not a mapping", path=path)
    return {str(key).lower(): value for key, value in config.items()}
