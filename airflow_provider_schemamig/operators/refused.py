"""How a task fails whose work was refused: a line for each reason, with commands to paste, then an end that nobody tries again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_schemamig.core.typed_commands import complete
from airflow_provider_schemamig.exceptions import Refused, SchemamigError


class TaskRefused(AirflowFailException):
    """The end of a task whose work was refused: no retry policy is asked. ``error``: the refusal itself."""

    def __init__(self, text: str, error: SchemamigError) -> None:
        super().__init__(text)
        self.error = error

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.error)


def telling(execute: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``execute`` (or what goes on with it) of an operator, with refusals told and final, conflicts told, and its Spark
    driver ended with it."""

    @functools.wraps(execute)
    def told(self: Any, *args: Any, **kwargs: Any) -> Any:
        context: Any = kwargs.get("context") or (args[-1] if args else {})
        self.begin(context)
        failed: SchemamigError | None = None
        try:
            self.check_given(context)
            return execute(self, *args, **kwargs)
        except SchemamigError as error:
            failed = error
            where = self.whereabouts(context)
            if error.retryable:
                self.log.warning("%s", complete(str(error), *where))
                raise
            for reason in error.refusals if isinstance(error, Refused) else (error,):
                self.log.error("%s", complete(str(reason), *where))
            self.tell_refused(error, complete(str(error), *where))
            raise TaskRefused(complete(str(error), *where), error) from None
        finally:
            self.end(failed)

    told.tells = True  # type: ignore[attr-defined]
    return told
