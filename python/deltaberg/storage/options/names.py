"""The names of options of stores: what obstore calls them, and what deltalake and pyiceberg do."""

from __future__ import annotations

import difflib

from deltaberg.errors import InvalidArgumentError

__all__ = [
    "AZURE",
    "CLIENT",
    "GCS",
    "PATH_STYLE",
    "PROFILE",
    "RETRY",
    "S3",
    "TIMEOUTS",
    "check_foreign",
    "unknown_option",
]

S3 = {
    "s3.endpoint": "endpoint",
    "s3.access-key-id": "access_key_id",
    "s3.secret-access-key": "secret_access_key",
    "s3.session-token": "session_token",
    "s3.region": "region",
    "s3.role-arn": "role_arn",
    "s3.role-session-name": "role_session_name",
    "s3.anonymous": "skip_signature",
    "s3.connect-timeout": "connect_timeout",
    "s3.request-timeout": "timeout",
    "s3.force-virtual-addressing": "virtual_hosted_style_request",
    "client.region": "region",
    "client.access-key-id": "access_key_id",
    "client.secret-access-key": "secret_access_key",
    "client.session-token": "session_token",
    "client.role-arn": "role_arn",
    "aws_endpoint_url": "endpoint",
    "aws_endpoint_url_s3": "endpoint",
    "endpoint_url": "endpoint",
    "aws_default_region": "region",
    "aws_allow_http": "allow_http",
    "aws_storage_allow_http": "allow_http",
    "aws_iam_role_arn": "role_arn",
    "aws_iam_role_session_name": "role_session_name",
    "aws_s3_assume_role_arn": "role_arn",
    "aws_s3_role_session_name": "role_session_name",
    "aws_s3_pool_idle_timeout_seconds": "pool_idle_timeout",
    "anon": "skip_signature",
}
GCS = {
    "gcs.oauth2.token": "bearer_token",
    "gcs.service.host": "base_url",
    "google_service_account": "service_account",
    "google_service_account_key": "service_account_key",
    "google_application_credentials": "application_credentials",
    "service_account_path": "service_account",
}
AZURE = {
    "adls.account-name": "account_name",
    "adls.account-key": "account_key",
    "adls.sas-token": "sas_key",
    "adls.tenant-id": "tenant_id",
    "adls.client-id": "client_id",
    "adls.client-secret": "client_secret",
    "adls.account-host": "endpoint",
    "adls.token": "token",
    "azure_storage_account_name": "account_name",
    "azure_storage_account_key": "account_key",
    "azure_storage_sas_token": "sas_key",
    "azure_storage_token": "token",
    "azure_storage_endpoint": "endpoint",
    "azure_storage_sas_key": "sas_key",
    "azure_storage_client_id": "client_id",
    "azure_storage_client_secret": "client_secret",
    "azure_storage_tenant_id": "tenant_id",
    "azure_storage_use_emulator": "use_emulator",
}
TIMEOUTS = frozenset({"connect_timeout", "pool_idle_timeout", "read_timeout", "timeout"})
CLIENT = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "default_headers",
        "pool_max_idle_per_host",
        "proxy_url",
        "proxy_ca_certificate",
        "proxy_excludes",
        "user_agent",
    }
)
RETRY = frozenset({"max_retries", "retry_timeout"})
PATH_STYLE = frozenset({"s3.path-style-access", "aws_path_style", "path_style"})
PROFILE = frozenset({"s3.profile-name", "client.profile-name", "aws_profile", "profile"})
#: What obstore calls the options of each kind of store, without the prefix.
_OF_S3 = (
    *("access_key_id", "secret_access_key", "session_token", "region", "endpoint", "skip_signature", "role_arn"),
    *(
        "role_session_name",
        "web_identity_token_file",
        "sts_endpoint",
        "virtual_hosted_style_request",
        "conditional_put",
    ),
    *("copy_if_not_exists", "checksum_algorithm", "server_side_encryption", "sse_kms_key_id", "sse_bucket_key_enabled"),
    *("sse_customer_key_base64", "unsigned_payload", "request_payer", "disable_tagging", "disable_bulk_delete"),
    *("metadata_endpoint", "imdsv1_fallback", "container_credentials_relative_uri", "container_credentials_full_uri"),
    *("container_authorization_token_file", "s3_express", "bucket", "default_region"),
)
_OF_AZURE = (
    *(
        "account_name",
        "account_key",
        "client_id",
        "client_secret",
        "tenant_id",
        "authority_host",
        "sas_key",
        "sas_token",
    ),
    *("token", "endpoint", "use_emulator", "use_fabric_endpoint", "msi_endpoint", "object_id", "msi_resource_id"),
    *(
        "federated_token_file",
        "use_azure_cli",
        "skip_signature",
        "container_name",
        "disable_tagging",
        "credential_type",
    ),
)
_OF_GCS = (
    *("service_account", "service_account_key", "application_credentials", "bearer_token", "base_url"),
    *("skip_signature", "bucket"),
)
_SHOWN = {"s3": ("AWS_", _OF_S3, S3), "gs": ("GOOGLE_", _OF_GCS, GCS)}
_SHOWN |= dict.fromkeys(("az", "abfs"), ("AZURE_", _OF_AZURE, AZURE))
_NO_LOCK = (
    "commits take no lock of DynamoDB, which other writers of the table rely on",
    "leave it out if all writers of the table rely on conditional puts",
)
#: Options of deltalake that nothing here goes by: why, and what to write instead.
_REFUSED = {
    "aws_s3_locking_provider": _NO_LOCK,
    "delta_dynamo_table_name": _NO_LOCK,
    "object_store_concurrency_limit": (
        "there is no limit of concurrent requests",
        "leave it out, and pass threads to ⟪scan()⟫ to read fewer files at a time",
    ),
    "aws_s3_get_internal_server_error_retries": ("retries are counted for all errors alike", "write max_retries"),
    "aws_sts_pool_idle_timeout_seconds": (
        "connections to STS are not kept",
        "leave it out, or write pool_idle_timeout for those to the store",
    ),
    "aws_s3_addressing_style": (
        "the style is a switch",
        "write AWS_PATH_STYLE=true, or leave it out for virtual hosts",
    ),
    "aws_force_credential_load": (
        "the shared AWS files are only read for a profile that is named",
        "pass AWS_PROFILE to take its credentials, or leave it out",
    ),
    "aws_ec2_metadata_disabled": (
        "the metadata of the machine is only asked where no credentials were given",
        "pass credentials, or AWS_SKIP_SIGNATURE=true for a public bucket",
    ),
}
#: Names that others have for options of ours, and that look like another option, or like none.
_MEANT = {
    "aws_default_profile": "AWS_PROFILE",
    "aws_max_attempts": "max_retries",
    "aws_security_token": "AWS_SESSION_TOKEN",
    "glue.region": "client.region",
    "profile_name": "AWS_PROFILE",
    "region_name": "AWS_REGION",
    "s3.proxy-uri": "proxy_url",
}
_OF_DYNAMODB = "_dynamodb"
#: Options of deltalake that change nothing: no object is renamed here, since commits are conditional puts.
_WITHOUT_EFFECT = frozenset({"aws_s3_allow_unsafe_rename", "mount_allow_unsafe_rename", "allow_unsafe_rename"})


def check_foreign(option: str, value: object) -> bool:
    """Return whether an option of deltalake changes nothing here.

    Raises
    ------
    InvalidArgumentError
        If it asks for what is not done here.
    """
    name = option.lower()
    found = _NO_LOCK if name.startswith("aws_") and name.endswith(_OF_DYNAMODB) else _REFUSED.get(name)
    if found is None or str(value).strip().lower() in ("", "none", "false"):
        return name in _WITHOUT_EFFECT or found is not None
    reason, hint = found
    raise InvalidArgumentError(f"the storage option {option!r} is not taken: {reason}", hint=hint)


def unknown_option(scheme: str, option: str) -> InvalidArgumentError:
    """Return the error of an option that the stores of a scheme do not have, with the one that may be meant.

    Examples
    --------
    >>> unknown_option("s3", "AWS_REGOIN").hint
    'did you mean AWS_REGION?'
    >>> unknown_option("s3", "AWS_CA_BUNDLE").hint
    'leave it out; the names are in docs/storage.md'
    """
    prefix, names, others = _SHOWN.get(scheme, ("", (), {}))
    shown = {f"{prefix}{name.upper()}".lower(): f"{prefix}{name.upper()}" for name in names}
    shown |= {name: name for name in names}
    for name in (*CLIENT, *TIMEOUTS, *RETRY, *PATH_STYLE, *PROFILE, *others):
        shown.setdefault(name, name.upper() if name.startswith(prefix.lower()) else name)
    for name in (*_REFUSED, *_WITHOUT_EFFECT):
        shown.setdefault(name, name.upper())
    # The prefix, which most of them have, says nothing of how alike two names are.
    start, spelled = prefix.lower(), option.lower()
    alike = sorted(shown, key=lambda name: (name.startswith(start) == spelled.startswith(start), name))
    bare = {name.removeprefix(start): shown[name] for name in alike}
    near = [bare[name] for name in difflib.get_close_matches(spelled.removeprefix(start), bare, n=1, cutoff=0.7)]
    meant = _MEANT.get(spelled, near[0] if near else None)
    hint = f"did you mean {meant}?" if meant else "leave it out; the names are in docs/storage.md"
    if meant and (refused := _REFUSED.get(meant.lower())):
        hint += f" It is not taken: {refused[0]}; {refused[1]}"
    return InvalidArgumentError(f"a storage option is not known: {option}", hint=hint)
