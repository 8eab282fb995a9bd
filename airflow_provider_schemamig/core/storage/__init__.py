"""Files and objects below one URI, on a local disk or in an object store, with the one primitive a log needs: put-if-absent.

Everything above (Delta logs, ledger, plans, reports) goes through ``Store``; nothing else opens a path or a bucket.
"""

from airflow_provider_schemamig.core.storage.errors import (
    BucketMissing,
    ClockSkewed,
    CredentialsExpired,
    InvalidLocation,
    InvalidStorageOption,
    NotOurPlace,
    ObjectExists,
    ObjectMissing,
    PutIfAbsentIgnored,
    StorageForbidden,
    StorageFull,
    StorageReadOnly,
    StorageThrottled,
    StorageUnreachable,
    StoreUnfit,
    UnsafeLogStore,
    WrongRegion,
)
from airflow_provider_schemamig.core.storage.local import LocalStore
from airflow_provider_schemamig.core.storage.location import (
    CONDITIONAL_LOG_STORE,
    THROWAWAY,
    Location,
    StorageOptions,
    check_addresses,
    place_of,
    spark_uri,
    with_account,
)
from airflow_provider_schemamig.core.storage.receipt import WriteReceipt
from airflow_provider_schemamig.core.storage.store import (
    CONFIRM_SECONDS,
    ReadStore,
    Store,
    confirm,
    needs_log_store,
    open_store,
    probe_put_if_absent,
    require_safe_log_store,
)
from airflow_provider_schemamig.credentials import blank, is_credential, secrets_of

__all__ = [
    "CONDITIONAL_LOG_STORE",
    "CONFIRM_SECONDS",
    "THROWAWAY",
    "BucketMissing",
    "ClockSkewed",
    "CredentialsExpired",
    "InvalidLocation",
    "InvalidStorageOption",
    "LocalStore",
    "Location",
    "NotOurPlace",
    "ObjectExists",
    "ObjectMissing",
    "PutIfAbsentIgnored",
    "ReadStore",
    "StorageForbidden",
    "StorageFull",
    "StorageOptions",
    "StorageReadOnly",
    "StorageThrottled",
    "StorageUnreachable",
    "Store",
    "StoreUnfit",
    "UnsafeLogStore",
    "WriteReceipt",
    "WrongRegion",
    "blank",
    "check_addresses",
    "confirm",
    "is_credential",
    "needs_log_store",
    "open_store",
    "place_of",
    "probe_put_if_absent",
    "require_safe_log_store",
    "secrets_of",
    "spark_uri",
    "with_account",
]
