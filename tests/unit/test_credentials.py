"""Credentials: which options are one, that none is accepted in a URI or an address, and that none is in any text."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.storage import InvalidLocation, InvalidStorageOption, StorageOptions
from airflow_provider_schemamig.core.storage.credentials import blank, is_credential, secrets_of
from airflow_provider_schemamig.exceptions import SchemamigError

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
def test_what_says_where_and_how_is_none(name: str) -> None:
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
def test_what_a_server_echoes_is_blanked(echo: str, uri: str, options: dict[str, str]) -> None:
    env = Environment.open(uri, {name: value.replace("{at}", echo) for name, value in options.items()})
    for look in (lambda: env.store().get("x"), lambda: LedgerReader(env).state()):
        with pytest.raises(SchemamigError) as caught:
            look()
        text = f"{caught.value} {caught.value.to_json()}"
        for secret in ("AbCdEf", "GhIj", "hunter2", "\x1b"):
            assert secret not in text.replace("\\u001b", "")
