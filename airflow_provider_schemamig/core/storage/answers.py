"""What an object store's refusal means: obstore has few classes for them, and what matters stands in the answer that it quotes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from airflow_provider_schemamig.core.storage.errors import (
    BucketMissing,
    ClockSkewed,
    CredentialsExpired,
    ObjectExists,
    ObjectMissing,
    StorageForbidden,
    StorageThrottled,
    StorageUnreachable,
    WrongRegion,
)
from airflow_provider_schemamig.core.storage.location import StorageOptions
from airflow_provider_schemamig.exceptions import SchemamigError
from airflow_provider_schemamig.visible import visible

_STATUS = re.compile(r"non-2xx status code: (\d{3})")
_CODE = re.compile(r"<Code>([^<]*)</Code>|\"(?:code|error|reason)\"\s*:\s*\"([A-Za-z_]+)\"")
_MESSAGE = re.compile(r"<Message>([^<]*)|\"(?:message|error_description)\"\s*:\s*\"([^\"]*)\"")
_REGION = re.compile(r"<Region>([a-z0-9-]+)</Region>|expecting '([a-z0-9-]+)'")
_SERVER_TIME = re.compile(r"<ServerTime>([^<]+)")
#: Below it stand Rust's values, headers included.
_DEBUG = "\n\nDebug source:"

_THROTTLED = {"SlowDown", "TooManyRequests", "ServerBusy", "RequestLimitExceeded", "Throttling", "rateLimitExceeded"}
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired", "ExpiredAuthenticationToken"}
#: How Azure says it of a SAS and of a token; its code is that of any failed signature.
_EXPIRED_TEXTS = ("Signature not valid in the specified time frame", "The token is expired", "Lifetime validation failed")
_SKEWED = {"RequestTimeTooSkewed", "RequestTimeSkewed"}
_REGION_CODES = {"PermanentRedirect", "TemporaryRedirect", "IllegalLocationConstraintException"}
_NO_BUCKET = {"NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted"}
_NO_OBJECT = {"", "NoSuchKey", "NoSuchVersion", "BlobNotFound", "ResourceNotFound", "notFound"}
#: What a client asks for credentials when it was given none: the machine it runs on.
_METADATA_SERVICES = ("169.254.169.254", "169.254.170.2", "metadata.google.internal")


@dataclass(frozen=True, slots=True)
class StoreAnswer:
    """What a store said: HTTP's status (None: there was no answer), its own code, all of the text that is no debug output."""

    status: int | None
    code: str
    text: str

    @classmethod
    def of(cls, error: BaseException) -> StoreAnswer:
        text = str(error).partition(_DEBUG)[0]
        status, code = _STATUS.search(text), _CODE.search(text)
        return cls(int(status[1]) if status else None, (code[1] or code[2]) if code else "", text)

    @property
    def is_not_implemented(self) -> bool:
        return self.status == 501 or self.code == "NotImplemented"

    def reason(self, options: StorageOptions) -> str:
        """Return the store's own words, or the client's, in one line and without secrets."""
        told = _MESSAGE.search(self.text)
        text = (told[1] or told[2] or "").strip() if told else ""
        if not (text or self.code):
            text = self.text.splitlines()[0] if self.text else "no reason was given"
        elif self.code:
            text = f"{text.splitlines()[0].rstrip('.')} ({self.code})" if text else self.code
        return visible(options.redact(text)).rstrip(".")


def failure_of(error: BaseException, uri: str, options: StorageOptions) -> SchemamigError:
    """Return the error for what obstore raised."""
    import obstore.exceptions as failures

    answer = StoreAnswer.of(error)
    reason = answer.reason(options)
    if (found := _by_code(answer, uri, reason)) is not None:
        return found
    if isinstance(error, FileNotFoundError | failures.NotFoundError) or answer.status == 404:
        # versitygw has a 404 for whom it does not know, too.
        return ObjectMissing(uri=uri) if answer.code in _NO_OBJECT else StorageForbidden(uri=uri, reason=reason)
    if isinstance(error, failures.AlreadyExistsError | failures.PreconditionError):
        return ObjectExists(uri=uri)
    if any(service in answer.text for service in _METADATA_SERVICES):
        return StorageForbidden(uri=uri, reason="no credentials were given, and this machine has none of its own")
    if isinstance(error, failures.PermissionDeniedError | failures.UnauthenticatedError) or answer.status in (401, 403):
        return StorageForbidden(uri=uri, reason=reason)
    return StorageUnreachable(uri=uri, reason=reason)


def _by_code(answer: StoreAnswer, uri: str, reason: str) -> SchemamigError | None:
    code, text = answer.code, answer.text
    region = _REGION.search(text)
    if answer.status in (429, 503) or code in _THROTTLED:
        return StorageThrottled(uri=uri, reason=reason)
    if code in _REGION_CODES or (code == "AuthorizationHeaderMalformed" and region) or "redirect without LOCATION" in text:
        return WrongRegion(uri=uri, region=(region[1] or region[2]) if region else None)
    if code in _EXPIRED or any(words in text for words in _EXPIRED_TEXTS):
        return CredentialsExpired(uri=uri, reason=reason)
    if code in _SKEWED:
        return ClockSkewed(uri=uri, seconds=_skew(text))
    if code in _NO_BUCKET or "specified bucket does not exist" in text:
        return BucketMissing(uri=uri)
    return None


def _skew(text: str) -> int | None:
    """Return by how many seconds this machine's clock is ahead of the store's, if the store told its time."""
    told = _SERVER_TIME.search(text)
    if told is None:
        return None
    try:
        there = datetime.fromisoformat(told[1].strip())
    except ValueError:
        return None
    return round((datetime.now(UTC) - there).total_seconds()) if there.tzinfo is not None else None
