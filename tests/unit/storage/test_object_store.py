"""The client of object stores: what it takes from the environment, what it makes of bad answers, and what it does not believe."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_schemamig.core.storage import (
    BucketMissing,
    ClockSkewed,
    CredentialsExpired,
    InvalidStorageOption,
    ObjectExists,
    PutIfAbsentIgnored,
    StorageForbidden,
    StorageOptions,
    StorageThrottled,
    StorageUnreachable,
    Store,
    StoreUnfit,
    UnsafeLogStore,
    WrongRegion,
    log_stores,
    objects,
    probe_put_if_absent,
    require_safe_log_store,
)
from airflow_provider_schemamig.core.storage.answers import failure_of
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.stores.fake_s3 import Answerer, Asked, FakeS3, Said, after_seconds, always, listing, times
from tests.unit.storage.conftest import KEYS, opened

# --- the environment's variables -----------------------------------------------------------------------------------------------------


def test_the_usual_variables_are_enough(endpoint: str, fake: FakeS3, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {**{name.upper(): value for name, value in KEYS.items()}, "AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    opened({}).put("a", b"1")
    (asked,) = fake.requests
    assert "Credential=AKIDEXAMPLE/" in asked.headers["authorization"]
    assert "/us-east-1/" in asked.headers["authorization"]


def test_an_option_goes_before_a_variable_and_the_other_variables_still_count(
    endpoint: str, fake: FakeS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "eu-west-3"}.items():
        monkeypatch.setenv(name, value)
    opened({**KEYS, "timeout": "7s"}).put("a", b"1")
    assert "/us-east-1/" in fake.requests[0].headers["authorization"]


def test_a_variable_that_changes_is_seen_by_the_next_store(endpoint: str, fake: FakeS3, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {**KEYS, "aws_allow_http": "true"}
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StorageUnreachable):
        opened({**options, "timeout": "1s"}).put("a", b"1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    opened({**options, "timeout": "1s"}).put("a", b"1")
    assert list(fake.objects) == ["lake/a"]


def test_a_proxy_of_the_environment_is_used(endpoint: str, fake: FakeS3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROXY_URL", endpoint)
    fake.answers = [always(Said(200, headers=(("etag", '"1"'),)))]
    opened({**KEYS, "aws_endpoint_url": "http://s3.invalid", "aws_allow_http": "true"}).put("a", b"1")
    assert [asked.path for asked in fake.requests] == ["http://s3.invalid/bucket/lake/a"]


def test_what_is_said_of_another_store_is_not_this_ones(endpoint: str, fake: FakeS3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_TIMEOUT", "1ms")
    fake.answers = [after_seconds(0.1)]
    own = {"timeout": "1ms", "aws_timeout": "9s", "azure_timeout": "1ms"}
    opened({**KEYS, "aws_endpoint_url": endpoint, "aws_allow_http": "true", **own}).put("a", b"1")


def test_a_timeout_of_the_environment_counts(endpoint: str, fake: FakeS3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_TIMEOUT", "50ms")
    fake.answers = [after_seconds(0.3)]
    with pytest.raises(StorageUnreachable):
        opened({**KEYS, "aws_endpoint_url": endpoint, "aws_allow_http": "true"}).get("a")


@pytest.mark.parametrize(
    "uri, options, named",
    [
        ("s3://bucket", {"aws_endpoint_url": "http://127.0.0.1:1"}, "aws_allow_http=true"),
        ("s3://bucket", {"aws_endpoint_url": "http://127.0.0.1:1", "allow_http": "false"}, "aws_allow_http=true"),
        ("az://box", {"azure_storage_endpoint": "http://127.0.0.1:1", "azure_storage_account_name": "a"}, "azure_allow_http=true"),
    ],
)
def test_plain_http_has_to_be_allowed_by_name(uri: str, options: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidStorageOption, match=named):
        opened({**KEYS, **options} if uri.startswith("s3") else options, uri).get("a")


# --- bad answers ---------------------------------------------------------------------------------------------------------------------

CALLS: dict[str, Callable[[Store], object]] = {
    "get": lambda store: store.get("a"),
    "put": lambda store: store.put_if_absent("a", b"1"),
    "list": lambda store: store.names("log"),
    "exists": lambda store: store.exists("a"),
}
BEHIND = (datetime.now(UTC) + timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
ANSWERS = {
    "a wrong region (by redirect)": (Said.error(301, "PermanentRedirect", "Use another endpoint."), WrongRegion, False, "region"),
    "a wrong region": (
        Said.error(400, "AuthorizationHeaderMalformed", "the region 'us-east-1' is wrong; expecting 'eu-west-1'"),
        *(WrongRegion, False, "to eu-west-1"),
    ),
    "an expired token": (Said.error(400, "ExpiredToken", "The provided token has expired."), CredentialsExpired, True, "Renew"),
    "an expired signature (Azure)": (
        Said.error(403, "AuthenticationFailed", "Signature not valid in the specified time frame: Start [..] - Expiry [..]"),
        *(CredentialsExpired, True, "Renew"),
    ),
    "a wrong clock": (
        Said.error(403, "RequestTimeTooSkewed", "The difference is too large.", f"<ServerTime>{BEHIND}</ServerTime>"),
        *(ClockSkewed, False, "clock (NTP)"),
    ),
    "an unknown key": (Said.error(403, "InvalidAccessKeyId", "No such key."), StorageForbidden, False, "No such key (InvalidAccessKeyId)"),
    "an unknown key (versitygw)": (Said.error(404, "XAdminUserNotFound", "No user exists."), StorageForbidden, False, "No user exists"),
    "no right": (Said.error(403, "AccessDenied", "Access Denied"), StorageForbidden, False, "the right to read and write"),
    "no bucket": (Said.error(404, "NoSuchBucket", "The specified bucket does not exist"), BucketMissing, False, "create it"),
    "no answer in time": (Said.error(500, "InternalError", "Please try again."), StorageUnreachable, True, "try again"),
}


@pytest.mark.some(12)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", ANSWERS)
def test_a_bad_answer_is_one_clear_error(name: str, call: str, fake: FakeS3, store: Store) -> None:
    said, kind, retryable, words = ANSWERS[name]
    fake.answers = [always(said)]
    if said.status == 404 and call == "exists":  # an answer to HEAD has no text
        assert store.exists("a") is False
        return
    with pytest.raises(SchemamigError) as caught:
        CALLS[call](store)
    assert (type(caught.value), caught.value.retryable) == (kind, retryable)
    assert words in str(caught.value)
    assert "AKIDEXAMPLE" not in str(caught.value)


def test_by_how_much_a_clock_is_wrong(fake: FakeS3, store: Store) -> None:
    server = (datetime.now(UTC) + timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    fake.answers = [always(Said.error(403, "RequestTimeTooSkewed", "The difference is too large.", f"<ServerTime>{server}</ServerTime>"))]
    with pytest.raises(ClockSkewed, match=r"\(7[12]\d\d s behind\)"):
        store.get("a")


def test_without_any_credentials_it_says_so(monkeypatch: pytest.MonkeyPatch, fake: FakeS3, endpoint: str) -> None:
    # The machine's own metadata service is not asked: this is what obstore says when it has not got one.
    text = "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 1s, after 4 retries"
    assert isinstance(failure_of(OSError(text), "s3://bucket", StorageOptions()), StorageForbidden)


@pytest.mark.some(2)
@pytest.mark.parametrize("call", ["get", "put", "list"])
@pytest.mark.parametrize(
    "said", [Said.error(503, "SlowDown", "Reduce your rate."), Said.error(429, "TooManyRequests", "Slow.")], ids=["503", "429"]
)
def test_a_store_that_throttles_is_asked_again_and_that_is_told(
    said: Said, call: str, fake: FakeS3, store: Store, waits: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    fake.objects["lake/a"] = b"1"
    fake.answers = [times(5, said)]  # as often as obstore asks by itself
    with caplog.at_level(logging.WARNING):
        CALLS[call](store)
    assert len(fake.requests) >= 6
    assert len(waits) == 1
    assert 0.5 <= waits[0] <= 1.5
    assert "takes no more requests for now" in caplog.text


def test_a_store_that_goes_away_is_waited_for_if_it_has_answered(fake: FakeS3, store: Store, waits: list[float]) -> None:
    store.put("key", b"x")
    fake.answers = [times(12, Said.error(500, "InternalError", "Please try again."))]  # five a request
    assert store.get("key") == b"x"
    assert len(waits) == 2 and 1.5 <= sum(waits) <= 4.5
    fake.answers = [always(Said.error(500, "InternalError", "Please try again."))]
    with pytest.raises(StorageUnreachable):
        store.get("key")
    assert len(waits) == 7


def test_a_store_that_never_answered_is_not_waited_for(fake: FakeS3, store: Store, waits: list[float]) -> None:
    fake.answers = [always(Said.error(500, "InternalError", "Please try again."))]
    with pytest.raises(StorageUnreachable):
        store.get("key")
    assert waits == []


def test_a_store_that_throttles_for_ever_is_a_conflict(
    fake: FakeS3, store: Store, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "_THROTTLE_SECONDS", (1.0, 2.0))
    fake.answers = [always(Said.error(503, "SlowDown", "Reduce your rate."))]
    with pytest.raises(StorageThrottled, match=r"Reduce your rate \(SlowDown\)") as caught:
        store.get("a")
    assert caught.value.retryable
    assert len(waits) == 2


def test_an_answer_that_was_lost_is_looked_up(fake: FakeS3, store: Store) -> None:
    def lost(asked: Asked) -> Said | None:
        if asked.method != "PUT" or "lake/a" in fake.objects:
            return None
        fake.objects["lake/a"] = asked.body  # it is there, and the client does not hear of it
        return Said.error(500, "InternalError", "Please try again.")

    fake.answers = [lost]
    store.put_if_absent("a", b"ours")
    assert len(fake.of("PUT")) == 2


def test_a_conditional_write_that_another_one_delays_is_made_again(fake: FakeS3, store: Store, waits: list[float]) -> None:
    conflict = Said.error(409, "ConditionalRequestConflict", "A conflicting conditional operation is in progress.")
    fake.answers = [times(2, conflict, "PUT")]
    store.put_if_absent("a", b"ours")
    assert fake.objects == {"lake/a": b"ours"}
    fake.answers = [always(conflict, "PUT")]
    with pytest.raises(StorageUnreachable) as caught:
        store.put_if_absent("b", b"ours")
    assert caught.value.retryable
    fake.objects["lake/b"] = b"theirs"
    with pytest.raises(ObjectExists):
        store.put_if_absent("b", b"ours")


# --- listings and the probe ----------------------------------------------------------------------------------------------------------


def names_in(fake: FakeS3) -> list[str]:
    return [name for name in fake.objects if "log" in name]


def deaf(fake: FakeS3) -> Answerer:
    """Leave offsets out of account, as Azurite does."""
    return lambda asked: listing(fake.objects, asked.query["prefix"]) if "start-after" in asked.query else None


def dumb(fake: FakeS3) -> Answerer:
    """Answer nothing to offsets, as OneLake does."""
    return lambda asked: listing([], "") if "start-after" in asked.query else None


@pytest.mark.parametrize("fault, listings", [(None, 1), (deaf, 1), (dumb, 2)], ids=["sound", "deaf", "dumb"])
def test_an_offset_is_not_trusted(fault: Callable[[FakeS3], Answerer] | None, listings: int, fake: FakeS3, store: Store) -> None:
    fake.objects = {f"lake/log/{name}": b"" for name in ("0", "1", "2", "deep/3")}
    fake.answers = [fault(fake)] if fault else []
    assert store.names("log", start_after="0") == ["1", "2"]
    assert len(fake.requests) == listings


def test_a_true_answer_that_is_empty_is_looked_at_in_full_once(fake: FakeS3, store: Store) -> None:
    fake.objects = {"lake/log/0": b""}
    assert store.names("log", start_after="0") == []
    assert len(fake.requests) == 2


def without_conditions(fake: FakeS3) -> Answerer:
    def answer(asked: Asked) -> Said | None:
        if asked.method == "PUT":
            asked.headers.pop("if-none-match", None)
        return None

    return answer


def refusing_conditions(fake: FakeS3) -> Answerer:
    said = Said.error(501, "NotImplemented", "A header you provided implies functionality that is not implemented")
    return lambda asked: said if "if-none-match" in asked.headers else None


def forgetful(fake: FakeS3) -> Answerer:
    return lambda asked: Said.error(404, "NoSuchKey", "Not yet.") if asked.method == "GET" and not asked.query else None


def stale(fake: FakeS3) -> Answerer:
    said = Said(200, b"first", (("etag", '"1"'), ("last-modified", "Tue, 24 Nov 2026 06:00:00 GMT")))
    return lambda asked: said if asked.method == "GET" and not asked.query else None


def late_listing(fake: FakeS3) -> Answerer:
    return lambda asked: listing([], "") if asked.query else None


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "fault, kind, words",
    [
        (without_conditions, PutIfAbsentIgnored, "replaced the first one's object"),
        (refusing_conditions, PutIfAbsentIgnored, "knows no conditional writes"),
        (forgetful, StoreUnfit, "does not have what it has just acknowledged"),
        (stale, StoreUnfit, "does not give what was written last"),
        (late_listing, StoreUnfit, "listing lacks"),
    ],
)
def test_the_probe_refuses_a_store_that_can_keep_no_log(
    fault: Callable[[FakeS3], Answerer], kind: type[SchemamigError], words: str, fake: FakeS3, store: Store
) -> None:
    fake.answers = [fault(fake)]
    with pytest.raises(kind, match=words) as caught:
        probe_put_if_absent(store, "_schemamig")
    assert not caught.value.retryable
    assert fake.objects == {}


@pytest.mark.some(1)
@pytest.mark.parametrize("fault", [None, deaf, dumb], ids=["sound", "deaf", "dumb"])
def test_the_probe_takes_stores_whose_offsets_mean_nothing(fault: Callable[[FakeS3], Answerer] | None, fake: FakeS3, store: Store) -> None:
    fake.answers = [fault(fake)] if fault else []
    probe_put_if_absent(store, "_schemamig")
    assert fake.objects == {}


# --- who commits there ---------------------------------------------------------------------------------------------------------------

SPARK = b'{"commitInfo":{"timestamp":1,"operation":"WRITE","engineInfo":"Apache-Spark/4.2.0 Delta-Lake/4.4.0","txnId":"x"}}\n'
RUST = b'{"commitInfo":{"timestamp":1,"operation":"WRITE","engineInfo":"delta-rs:1.6.6"}}\n'
MARKED = (("x-amz-meta-schemamig-log-store", "conditional"),)


@pytest.mark.parametrize("uri", ["s3://bucket/lake/t", "s3a://bucket/lake/t"])
@pytest.mark.parametrize(
    "commits, unsafe",
    [
        ([], None),
        ([(SPARK, MARKED)], None),
        ([(SPARK, ())], 0),
        ([(RUST, ())], None),
        ([(SPARK, ()), (SPARK, MARKED)], None),
        ([(SPARK, MARKED), (SPARK, ()), (RUST, ())], 1),
    ],
    ids=["none", "ours", "stock", "delta-rs", "stock once, then ours", "ours once, then stock"],
)
def test_a_table_is_unsafe_where_sparks_newest_commit_was_not_conditional(
    commits: list[tuple[bytes, tuple[tuple[str, str], ...]]], unsafe: int | None, uri: str, fake: FakeS3, endpoint: str
) -> None:
    log_stores._newest.clear()
    options = {**KEYS, "aws_endpoint_url": endpoint, "aws_allow_http": "true"}
    headers = (("etag", '"1"'), ("last-modified", "Tue, 24 Nov 2026 06:00:00 GMT"))
    for version, (body, mark) in reversed(list(enumerate(commits))):  # as a head is read
        fake.answers = [always(Said(200, body, (*headers, *mark)))]
        opened(options, uri.rpartition("/")[0]).get(f"t/_delta_log/{version:020d}.json")
    fake.requests.clear()
    store = opened(options, uri)
    if unsafe is None:
        require_safe_log_store(store)
    else:
        with pytest.raises(UnsafeLogStore, match=f"version {unsafe} \\(Apache-Spark/4.2.0 Delta-Lake/4.4.0\\)"):
            require_safe_log_store(store)
        require_safe_log_store(opened({**options, "schemamig.conditional_log_store": "true"}, uri))
    require_safe_log_store(opened({}, "gs://bucket/lake/t"))
    assert fake.requests == []


# --- Azure's two names ---------------------------------------------------------------------------------------------------------------


def test_an_account_comes_into_the_uri(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_provider_schemamig.core.storage.root import EnvironmentRoot

    account = {"azure_storage_account_name": "acct"}
    inside = "abfss://box@acct.dfs.core.windows.net/lake"
    assert EnvironmentRoot.open("az://box/lake", account).location.uri == inside
    assert EnvironmentRoot.open("abfss://box/lake", {"account_name": "acct"}).location.uri == inside
    assert EnvironmentRoot.open(inside, {"account_name": "another"}).location.uri == inside
    assert EnvironmentRoot.open("az://box/lake", account).table_location("az://other/t").uri == "abfss://other@acct.dfs.core.windows.net/t"
    for more in ({"azure_storage_endpoint": "https://acct.blob.core.chinacloudapi.cn"}, {"azure_storage_use_emulator": "true"}):
        assert EnvironmentRoot.open("az://box/lake", {**account, **more}).location.uri == "az://box/lake"
    assert EnvironmentRoot.open("az://box/lake").location.uri == "az://box/lake"
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "acct")
    assert EnvironmentRoot.open("az://box/lake").location.uri == inside
