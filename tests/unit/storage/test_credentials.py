"""Credentials: which options are one, that none is accepted in a URI or an address, and that none is in any text."""

from __future__ import annotations

import http.server
import json
import pkgutil
import threading
import time
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from urllib.parse import quote

import pytest

from airflow_provider_schemamig import cli, core
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.history import told_reason
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.storage import InvalidLocation, InvalidStorageOption, StorageOptions
from airflow_provider_schemamig.credentials import blank, blank_own, blank_typed, is_credential, secrets_of
from airflow_provider_schemamig.exceptions import Refused, SchemamigError

SIGNATURE = "AbCdEf%2BGh%2FIj%3D"
SAS = f"sv=2022-11-02&ss=b&srt=sco&sp=rwl&se=2030-01-01T00:00:00Z&sig={SIGNATURE}"
AZURE = "abfss://c@acct.dfs.core.windows.net/root"
KEYS = {"aws_access_key_id": "AKIAXXXXXXXX", "aws_secret_access_key": "abcd/efgh+ijkl=", "aws_region": "eu-west-1", "allow_http": "true"}


@pytest.mark.parametrize(
    "name",
    [
        *("aws_secret_access_key", "AWS_ACCESS_KEY_ID", "aws_session_token", "access_key", "token", "authorization"),
        *("azure_storage_connection_string", "azure_storage_sas_key", "account_key", "azure_client_secret", "google_service_account_key"),
        *("fs.s3a.secret.key", "fs.azure.account.key.acct.dfs.core.windows.net", "a_name_of_tomorrow"),
    ],
)
def test_an_option_is_a_credential_unless_it_is_known_not_to_be(name: str) -> None:
    assert is_credential(name)


@pytest.mark.parametrize(
    "name",
    [
        *("aws_region", "AWS_ENDPOINT_URL", "endpoint", "allow_http", "azure_storage_account_name", "azure_tenant_id", "timeout"),
        *("schemamig.conditional_log_store", "fs.s3a.endpoint", "fs.s3a.path.style.access", "virtual_hosted_style_request"),
    ],
)
def test_credentials_what_says_where_and_how_is_none(name: str) -> None:
    assert not is_credential(name)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"aws_secret_access_key": "abcd/efgh+ijkl="}, "abcd/efgh+ijkl="),
        ({"aws_secret_access_key": "abcd/efgh+ijkl="}, "?key=" + quote("abcd/efgh+ijkl=", safe="")),
        ({"azure_storage_sas_key": SAS}, SAS),
        ({"azure_storage_sas_key": f"?{SAS}"}, "GET /c?sig=AbCdEf+Gh/Ij="),
        ({"azure_storage_sas_key": SAS}, f"re-encoded: {quote(SIGNATURE, safe='')}"),
        ({"azure_storage_connection_string": "AccountName=acct;AccountKey=Zm9vYmFy==;EndpointSuffix=x"}, "key Zm9vYmFy== is wrong"),
        ({"google_service_account_key": json.dumps({"private_key": "hunter2secret", "client_email": "a@b"})}, "bad: hunter2secret"),
        ({"aws_endpoint_url": "http://minio:hunter2secret@host:9000"}, "connecting as minio:hunter2secret"),
        ({"proxy_url": "http://me:hunter2secret@proxy:3128"}, "407 from http://me:hunter2secret@proxy:3128 (hunter2secret)"),
        ({}, "GET https://bucket/x?X-Amz-Credential=AKIA/x&X-Amz-Signature=hunter2secret HTTP/1.1"),
        ({}, "http://minio:hunter2secret@host/"),
        ({}, "no bucket at s3://AKIA:a/hunter2secret@bucket/root"),
        ({}, '{"Authorization": "Bearer hunter2secret.hunter2secret"}'),
        ({}, "Authorization: AWS4-HMAC-SHA256 Credential=AKIA/2020, Signature=hunter2secret"),
        ({}, "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=hunter2secret;EndpointSuffix=core"),
        ({}, "fs.s3a.secret.key=hunter2secret, next"),
        ({}, "sc://host:15002/;token=hunter2secret;use_ssl=true"),
        ({}, '{"aws_secret_access_key": "hunter2 secret"}'),
        ({}, "{'aws_session_token': 'hunter2secret'}"),
        ({}, "AWS_SECRET_ACCESS_KEY=hunter2secret"),
        ({}, "AZURE_STORAGE_SAS_KEY=hunter2secret"),
        ({}, "fs.azure.account.key.acct.dfs.core.windows.net=hunter2secret"),
        ({}, "fs.azure.account.oauth2.client.secret.acct.dfs.core.windows.net -> hunter2secret"),
        ({}, "(spark.hadoop.fs.s3a.secret.key,hunter2secret)"),
        ({}, "<Error><SecretKey>hunter2secret</SecretKey></Error>"),
        ({}, "GET https://hunter2secret@host/x"),
        ({}, "-----BEGIN PRIVATE KEY-----\nhunter2secret\n-----END PRIVATE KEY-----"),
        ({}, 'secret_access_key = "hunter2 secret"'),
        ({}, '"token": ["hunter2secret"]'),
        ({}, "x-api-key: hunter2secret"),
        ({}, 'Credentials { SecretAccessKey: Some("hunter2secret"), token: Some("hunter2secret") }'),
        ({}, '"Authorization": "hunter2secret"'),
        ({}, "proxy-authorization: hunter2secret"),
        ({}, "credentials=hunter2secret"),
        ({}, "x-ms-encryption-key: hunter2secret"),
        ({}, "fs.s3a.server-side-encryption.key=hunter2secret"),
        ({}, "spark.hadoop.fs.s3a.secret.key hunter2secret"),
        ({}, "<property><name>fs.s3a.secret.key</name><value>hunter2secret</value></property>"),
        ({}, "Cookie: session=hunter2secret"),
        ({"aws_secret_access_key": "hunter2/a+b"}, "?key=hunter2%2fa%2bb"),
        ({"aws_secret_access_key": "hunter2/a+b"}, '"hunter2\\/a+b"'),
        ({"aws_secret_access_key": "hunter2ä"}, json.dumps("hunter2ä")),
        ({"google_service_account_key": json.dumps({"private_key": "-----BEGIN\nhunter2secretline\nx"})}, "bad line hunter2secretline"),
    ],
)
def test_no_credential_is_left_in_a_text(options: dict[str, str], text: str) -> None:
    shown = StorageOptions(options).redact(text)
    assert "***" in shown
    for secret in ("abcd", "AbCdEf", "Gh/Ij", "Zm9vYmFy", "hunter2"):
        assert secret not in shown


@pytest.mark.parametrize(
    "text",
    [
        "the token of the lease expired",
        "row key: 12",
        "the primary key: id",
        "the secret of this design: simplicity",
        "PRIMARY KEY = (id)",
        "s3://bucket/x.parquet",
        "user@example.org wrote it",
        "file:///a:b@c",
        "http://127.0.0.1:9000/bucket/a@b",
        "basic types",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert blank(text, secrets_of({"aws_region": "eu-west-1", "allow_http": "true", "aws_secret_access_key": "xyzxyzxyz"})) == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("timeout", "30s"), ("connect_timeout", "1m 30s"), ("pool_max_idle_per_host", "16"), ("aws_region", "us-gov-east-1")],
        *[("allow_http", "TRUE"), ("aws_request_payer", "requester"), ("account_name", "lakeprod7"), ("azure_container_name", "raw-data")],
        *[("azure_tenant_id", "72f988bf-86f1-41af-91ab-2d7cd011db47"), ("authority_id", "contoso.onmicrosoft.com")],
        *[("proxy_excludes", "localhost, .internal.example,10.0.0.0/8,*"), ("user_agent", "my-app/1.0 (x)"), ("bucket", "my.bucket")],
        *[("checksum_algorithm", "SHA256"), ("conditional_put", "etag"), ("copy_if_not_exists", "header: cf-copy: *")],
        *[
            ("fs.s3a.endpoint", "minio:9000"),
            ("fs.s3a.connection.maximum", "200"),
            ("fs.s3a.impl", "org.apache.S3AFileSystem"),
        ],
        *[
            ("schemamig.conditional_log_store", "true"),
            ("fs.s3a.path.style.access", "true"),
            ("azure_authority_host", "https://login.example"),
        ],
    ],
)
def test_a_value_that_belongs_there_is_no_secret_and_another_is_one(name: str, value: str) -> None:
    assert secrets_of({name: value}) == ()
    assert "p4ssW0rd/Se+cret" in secrets_of({name: "p4ssW0rd/Se+cret"})


def test_a_form_is_looked_at_in_linear_time() -> None:
    started = time.monotonic()
    for name in ("timeout", "proxy_excludes", "tenant_id", "user_agent", "aws_region", "fs.s3a.endpoint", "fs.s3a.impl"):
        for long in ("1" * 20_000, "a." * 10_000, "1s" * 10_000, "a:" * 10_000, "a, " * 7_000):
            secrets_of({name: f"{long}!"})
    assert time.monotonic() - started < 5


def test_a_secret_in_a_harmless_option_is_not_quoted() -> None:
    env = Environment.open("s3://bucket/root", KEYS | {"timeout": "hunter2secret", "aws_endpoint": "http://127.0.0.1:1"})
    with pytest.raises(SchemamigError) as caught:
        LedgerReader(env).state()
    assert "hunter2" not in f"{caught.value} {caught.value.to_json()}"


# --- texts of ours, and what somebody typed ----------------------------------------------------------------------------------------------

TYPED = [
    *("s3://AKIA:hunter2secret@bucket/x", "see s3://AKIA:hunter2secret@bucket/x", "s3://AKIA:hunter2 'secret@bucket/x"),
    *("AccountName=a;AccountKey=hunter2secret;EndpointSuffix=x", "https://acct/c?sv=1&sig=hunter2secret", "https://hunter2secret@git/x"),
    *("'fs.s3a.secret.key'='hunter2secret'", "'fs.s3a.secret.key' = 'hunter2secret'", '{"aws_secret_access_key": "hunter2secret"}'),
    *(
        "Authorization: Bearer hunter2secret",
        "aws_session_token=hunter2secret",
        "token=<hunter2secret>",
        "-----BEGIN PRIVATE KEY-----\nhunter2secret\n",
    ),
]


@pytest.mark.parametrize("text", TYPED)
def test_no_credential_is_left_of_what_somebody_typed(text: str) -> None:
    assert "***" in blank_typed(text)
    assert "hunter2" not in blank_typed(text)


@pytest.mark.parametrize(
    "text",
    [
        *(*TYPED, "password: hunter2secret", "the AccountKey: hunter2secret;", "aws_secret_access_key : 'hunter2 a'"),
        *(
            "token: Bearer hunter2",
            "retried with token=Bearer hunter2",
            'header={"token": "a\\"hunter2"}',
            "x-auth-token: Bearer hunter2",
            "Authorization: hunter2",
            'Authorization: Digest u="u", response="hunter2"',
            'see {"db": "{\\"password\\": \\"hunter2\\"}"}',
            "{'password': b'hunter2'}",
            "password=u'hunter2'",
            'password="""hunter2"""',
            "password = 'it''s hunter2'",
            "password=SecretStr('hunter2')",
        ),
        *("Authorization: token hunter2secret", "authorization: ApiKey hunter2", 'curl -H "Authorization: Negotiate hunter2=="'),
    ],
)
def test_no_credential_is_left_of_a_reason(text: str) -> None:
    assert "hunter2" not in str(told_reason(text))


@pytest.mark.parametrize("scheme", ["Bearer", "token", "ApiKey", "Negotiate", "Digest"])
def test_no_scheme_before_a_token_shields_it(scheme: str) -> None:
    for known in (blank, blank_typed):
        assert "hunter2" not in known(f"Authorization: {scheme} hunter2secret")
    assert "hunter2" not in blank(f"x-auth-token: {scheme} hunter2secret")


@pytest.mark.parametrize(
    "text",
    [
        *("column token: STRING is not declared", "secrets: no such collection", "token = other", "basic constraints of the table"),
        *("password: it is a STRING", "user@example.org wrote it", "file:///a:b@c", "rows with id=1", "CHECK (secret_count == 1)"),
    ],
)
def test_credentials_what_names_a_column_stays(text: str) -> None:
    assert blank_own(text) == text


def _kinds(base: type[SchemamigError]) -> Iterator[type[SchemamigError]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _kinds(kind)


@pytest.mark.parametrize("text", [TYPED[2], "\n".join(text for text in TYPED if text != TYPED[2])])
def test_no_error_tells_what_its_fields_hold(text: str) -> None:
    for package in (core, cli):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    values = {"str": text, "str | None": text, "int": 1, "bool": True, "Sequence[str]": (text,), "tuple[str, ...]": (text,)}
    told = 0
    for kind in set(_kinds(SchemamigError)):
        if not kind.__module__.startswith("airflow_provider_schemamig."):
            continue
        error = kind.__new__(kind)
        for field in fields(kind):
            setattr(error, field.name, values.get(str(field.type), text))
        try:
            shown = f"{error.message} {error.next_action}"
        except (AttributeError, TypeError, ValueError, KeyError):
            continue  # a field of a type of its own
        told += 1
        for outer in (error, Refused(refusals=(error,))):
            shown += f"{outer} {outer!r} {json.dumps(outer.to_json())}"
        assert "hunter2" not in shown, kind
    assert told > 150


def test_a_stolen_look_at_an_error_shows_no_field() -> None:
    error = InvalidLocation(uri="s3://AKIA:hunter2secret@bucket", rule="x")
    assert repr(error) == f"InvalidLocation({str(error)!r})"
    assert error.uri == "s3://AKIA:hunter2secret@bucket", "for programs"


@pytest.mark.parametrize("text", ["AccountName=a;AccountKey=hunter2secret==", "sv=1;SharedAccessSignature=hunter2secret"])
def test_a_connection_string_is_no_place(text: str) -> None:
    with pytest.raises(InvalidLocation) as caught:
        Environment.open(text)
    assert "hunter2" not in f"{caught.value} {caught.value.to_json()}"


@pytest.mark.parametrize(
    "uri",
    [
        *(
            "s3://AKIA:hunter2secret@bucket/root",
            "gs://a:hunter2secret@b/x",
            "abfss://c:hunter2secret@acct/x",
            f"{AZURE}?sig=hunter2secret",
        ),
        *("s3://AKIA:a/hunter2secret@bucket/root", "s3://AKIA:hunter2 'secret@bucket/root", "s3:/AKIA:hunter2secret@bucket/root"),
        "https://AKIA:12/hunter2secret@bucket/root",
        *("s3://hunter2secret@bucket", "s3://key%3Ahunter2secret@bucket/x", " s3://key:hunter2secret@bucket", "x://hunter2secret:y@bucket"),
    ],
)
def test_no_credential_in_a_uri(uri: str) -> None:
    with pytest.raises(InvalidLocation) as caught:
        Environment.open(uri)
    assert "hunter2" not in f"{caught.value} {caught.value.to_json()}"


@pytest.mark.parametrize(
    "endpoint",
    ["http://minio:hunter2secret@127.0.0.1:9000", "ht tp://hunter2secret", "hunter2secret", "http://", "http://h:hunter2secret/"],
)
@pytest.mark.parametrize("by", ["option", "environment"])
def test_an_endpoint_is_a_url_without_a_password(monkeypatch: pytest.MonkeyPatch, endpoint: str, by: str) -> None:
    if by == "environment":
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(InvalidStorageOption) as caught:
        Environment.open("s3://bucket/root", KEYS | ({"aws_endpoint_url": endpoint} if by == "option" else {}))
    assert "hunter2" not in str(caught.value)
    assert Environment.open("file:///tmp/x", {"aws_endpoint_url": endpoint}).location.scheme == "file"


@pytest.mark.parametrize("uri", ["s3://bucket/root", "gs://bucket/root", "az://box/root"])
@pytest.mark.parametrize("proxy", ["http://proxy:99999", "https://me:hunter/2secret@proxy:3128", "me/hunter2secret@proxy"])
def test_a_proxy_of_the_shell_that_the_client_would_misread_is_refused(monkeypatch: pytest.MonkeyPatch, proxy: str, uri: str) -> None:
    """It would take ``me`` for the proxy, or port 80."""
    for name in ("NO_PROXY", "no_proxy", "https_proxy", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    options = {"azure_storage_account_name": "acct"}
    with pytest.raises(InvalidStorageOption, match="HTTPS_PROXY is no URL like http://host:port") as caught:
        Environment.open(uri, options)
    assert "hunter" not in str(caught.value)
    assert Environment.open("file:///tmp/x").location.scheme == "file"
    Environment.open(uri, {**options, "proxy_url": "http://another:1"})
    monkeypatch.setenv("NO_PROXY", "amazonaws.com,googleapis.com,windows.net")
    Environment.open(uri, options)


@pytest.mark.parametrize("proxy", ["proxy:3128", "http://me:word@proxy:3128", "socks5://proxy", "no proxy at all://", "http://[::1"])
def test_a_proxy_of_the_shell_that_the_client_takes_or_ignores_is_left_to_it(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    Environment.open("s3://bucket/root")


@pytest.fixture(scope="module")
def echo() -> Iterator[str]:
    """A server that answers every request with 403 and the request's own line."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            body = f"<Error><Code>Bad</Code><Message>no \x1b[2J {self.path}</Message></Error>".encode()
            self.send_response(403)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_HEAD = do_POST = _answer

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()


@pytest.mark.parametrize(
    ("uri", "options"),
    [
        (
            AZURE,
            {"azure_storage_sas_key": SAS, "account_name": "acct", "azure_endpoint": "http://{at}", "allow_http": "true"},
        ),
        (AZURE, {"sas_token": f"?{SAS}", "account_name": "acct", "endpoint": "http://{at}", "allow_http": "true"}),
        ("s3://bucket/root", KEYS | {"aws_endpoint": "http://127.0.0.1:1", "proxy_url": "http://me:hunter2secret@{at}"}),
    ],
)
def test_credentials_what_a_server_echoes_is_blanked(echo: str, uri: str, options: dict[str, str]) -> None:
    env = Environment.open(uri, {name: value.replace("{at}", echo) for name, value in options.items()})
    for look in (lambda: env.store().get("x"), lambda: LedgerReader(env).state()):
        with pytest.raises(SchemamigError) as caught:
            look()
        text = f"{caught.value} {caught.value.to_json()}"
        for secret in ("AbCdEf", "GhIj", "hunter2", "\x1b"):
            assert secret not in text.replace("\\u001b", "")


@pytest.mark.parametrize("name", ["signup", "sigma", "passengers", "passport", "sassy"])
def test_a_column_whose_name_begins_like_a_credentials_is_shown(name: str) -> None:
    """A sample of a row that breaks a rule has to show the value that does."""
    shown = f"{{'id': '7', '{name}': '2024-13-01'}}"
    assert blank(shown) == shown
    assert blank(f"{name}_sig=abc") == f"{name}_sig=***"


@pytest.mark.parametrize(
    "text",
    ["password='S3cr\\' meanwhile", '{"password": "hunter2\\"}', 'password="hunter2\\\nhunter2"', "secret: 'hunter2", "token='hunter2"],
)
def test_no_quotes_shield_a_credential(text: str) -> None:
    for told in (blank(text), str(told_reason(text))):
        assert "hunter2" not in told and "S3cr" not in told
