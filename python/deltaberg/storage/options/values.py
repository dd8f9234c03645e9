"""The values of options of stores. obstore would let some wrong values end in a panic, and others in a `TypeError`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from deltaberg.errors import InvalidArgumentError
from deltaberg.hints import shown_value

__all__ = ["checked_value", "is_shown", "not_taken"]

_UNITS = {"ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600}
_TIME = re.compile(rf"(\d{{1,12}})\s*({'|'.join(sorted(_UNITS, key=len, reverse=True))})\b")
_TIMES = re.compile(rf"(?:{_TIME.pattern}\s*)+")
_NUMERIC = re.compile(r"[-+]?[0-9.]{1,20}(?:e[0-9]{1,4})?|[-+]?(?:nan|inf)")
#: The largest number of seconds or of attempts.
_LARGEST_NUMBER = 1_000_000_000
#: What no header of HTTP and no URL can hold. Text that is read from a file often ends with a line break.
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_BOOLEANS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "disable_bulk_delete",
        "disable_tagging",
        "http1_only",
        "http2_keep_alive_while_idle",
        "http2_only",
        "imdsv1_fallback",
        "path_style",
        "randomize_addresses",
        "s3_express",
        "skip_signature",
        "sse_bucket_key_enabled",
        "unsigned_payload",
        "use_azure_cli",
        "use_emulator",
        "use_fabric_endpoint",
        "virtual_hosted_style_request",
    }
)
_URLS = frozenset(
    {
        "authority_host",
        "base_url",
        "container_credentials_full_uri",
        "endpoint",
        "identity_endpoint",
        "metadata_endpoint",
        "msi_endpoint",
        "sts_endpoint",
    }
)
#: Text that may have several lines: certificates, and keys in JSON.
_LONG_TEXTS = frozenset({"proxy_ca_certificate", "service_account_key"})
#: Options of text whose values are no secret, so that messages may show them.
_SHOWN_TEXTS = frozenset(
    {
        "account_name",
        "checksum_algorithm",
        "conditional_put",
        "copy_if_not_exists",
        "profile",
        "proxy_excludes",
        "region",
        "request_payer",
        "server_side_encryption",
        "user_agent",
    }
)
#: What options take of which obstore is the judge.
_TAKES = {
    "account_key": "a key in base64",
    "application_credentials": "the path of a file of credentials",
    "checksum_algorithm": "'sha256' or 'crc64nvme'",
    "conditional_put": "'etag' or 'disabled'",
    "copy_if_not_exists": "'multipart', 'header:NAME:VALUE' or 'header-with-status:NAME:VALUE:STATUS'",
    "default_headers": "a mapping of names to values that HTTP allows",
    "profile": "a profile of the shared AWS files that has credentials",
    "proxy_url": "the URL of a proxy, such as http://host:3128",
    "request_payer": "true, false or 'requester'",
    "sas_key": "a shared access signature",
    "service_account": "the path of the key of a service account",
    "service_account_key": "the key of a service account as JSON",
    "server_side_encryption": "'AES256', 'aws:kms', 'aws:kms:dsse' or 'sse-c'",
}


def not_taken(
    option: str, name: str, value: Any, takes: str | None = None, *, because: str | None = None
) -> InvalidArgumentError:
    """Return the error of an option with a value that it does not take. A value that may be a secret is not shown.

    Parameters
    ----------
    option
        The option as the caller spells it.
    name
        obstore's name of the option.
    value
        Its value.
    takes
        What it takes; by default, what is known of the option.
    because
        What obstore says of it, which is shown where nothing is known of the option.
    """
    expected = takes or _TAKES.get(name)
    if is_shown(name, value):
        instead = f", not {shown_value(value)}"
    else:
        instead = "" if isinstance(value, str) else f", not a value of the type {type(value).__name__}"
        # obstore may quote the value.
        because = None if because is None or str(value) in because else because
    if expected is None:
        reason = f": {because}" if because else ""
        message = f"the store does not take the value of the storage option {option!r}{instead}{reason}"
    else:
        message = f"the storage option {option!r} must be {expected}{instead}"
    return InvalidArgumentError(message, hint=f"change the value of {option}, or leave it out")


def is_shown(name: str, value: Any) -> bool:
    """Return whether a message may show the value of an option, and what obstore says of it."""
    if name in _URLS or name == "proxy_url":
        # A URL can hold a password, or a signature.
        return not {"@", "?"}.intersection(str(value))
    if name in _BOOLEANS or name in _NUMBERS:
        # Text in the place of a number may be a secret that belongs to another option.
        return not isinstance(value, str) or _NUMERIC.fullmatch(value) is not None
    return name in _SHOWN_TEXTS


def checked_value(option: str, name: str, value: Any) -> Any:
    """Return the value of an option as obstore takes it.

    Parameters
    ----------
    option
        The option as the caller spells it.
    name
        obstore's name of the option.
    value
        Its value.

    Raises
    ------
    InvalidArgumentError
        If the option does not take the value.

    Examples
    --------
    >>> checked_value("AWS_SKIP_SIGNATURE", "skip_signature", "yes")
    True
    """
    if name in _BOOLEANS:
        return _boolean(option, name, value)
    if name in _URLS:
        return _url(option, name, value)
    if name == "request_payer" and isinstance(value, bool):
        return value
    if name == "default_headers":
        return _headers(option, name, value)
    if name in _NUMBERS:
        return _NUMBERS[name](option, name, value)
    return _text(option, name, value)


def _text(option: str, name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise not_taken(option, name, value, "text")
    if name not in _LONG_TEXTS and _CONTROL.search(value):
        raise not_taken(option, name, value, "text without line breaks and other control characters")
    return value


def _boolean(option: str, name: str, value: Any) -> bool:
    """Return the value of an option that is true or false."""
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in ("true", "1", "yes", "on"):
        return True
    if text in ("false", "0", "no", "off", ""):
        return False
    raise not_taken(option, name, value, "true or false")


def _url(option: str, name: str, value: Any) -> str:
    text = value.strip() if isinstance(value, str) else ""
    try:
        parts = urlsplit(text)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url or any(letter.isspace() for letter in text) or _CONTROL.search(text):
        raise not_taken(option, name, value, "a URL such as https://host:9000")
    return text


def _headers(option: str, name: str, value: Any) -> dict[str, str | bytes]:
    if not isinstance(value, Mapping) or not all(
        isinstance(header, str) and isinstance(content, (str, bytes)) for header, content in value.items()
    ):
        raise not_taken(option, name, value, "a mapping of the names of headers to text")
    return dict(value)


def _seconds(option: str, name: str, value: Any) -> timedelta:
    """Return a time that is given as a number of seconds, or as text such as ``1m 30s``."""
    number = value.total_seconds() if isinstance(value, timedelta) else value
    text = str(value).strip().lower()
    if _TIMES.fullmatch(text):
        number = sum(int(count) * _UNITS[unit] for count, unit in _TIME.findall(text))
    try:
        seconds = -1.0 if isinstance(number, bool) else float(number)
    except (TypeError, ValueError, OverflowError):
        seconds = -1.0
    if not 0 <= seconds <= _LARGEST_NUMBER:
        raise not_taken(
            option, name, value, f"a number of seconds from 0 to {_LARGEST_NUMBER}, or text such as '1m 30s'"
        )
    return timedelta(seconds=seconds)


def _count(option: str, name: str, value: Any) -> int:
    try:
        count = int(value) if isinstance(value, str) else -1 if isinstance(value, bool) else operator.index(value)
    except (TypeError, ValueError):
        count = -1
    if not 0 <= count <= _LARGEST_NUMBER:
        raise not_taken(option, name, value, f"an integer from 0 to {_LARGEST_NUMBER}")
    return count


def _count_as_text(option: str, name: str, value: Any) -> str:
    return str(_count(option, name, value))


#: What reads the options that are numbers, by their names.
_NUMBERS: dict[str, Callable[[str, str, Any], Any]] = {
    "connect_timeout": _seconds,
    "max_retries": _count,
    "pool_idle_timeout": _seconds,
    "pool_max_idle_per_host": _count_as_text,
    "read_timeout": _seconds,
    "retry_timeout": _seconds,
    "timeout": _seconds,
}
