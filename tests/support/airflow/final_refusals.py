"""Tasks that are refused: how a test looks at the end of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_schemamig.exceptions import SchemamigError
from airflow_provider_schemamig.operators.refused import TaskRefused


@contextmanager
def fails_for_good(kind: type[SchemamigError], match: str | None = None) -> Iterator[Any]:
    """The task inside is refused: it ends as one that no retry policy is asked about. ``value``: the refusal."""
    found = SimpleNamespace(value=None)
    with pytest.raises(TaskRefused, match=match) as caught:
        yield found
    assert isinstance(caught.value, AirflowFailException)
    assert isinstance(caught.value.error, kind), caught.value.error
    found.value = caught.value.error
