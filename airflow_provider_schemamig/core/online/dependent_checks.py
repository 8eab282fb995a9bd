"""CHECKs of a table whose columns get other values: each has to hold for those, too, before they take the old ones' place.

A CHECK stands on the table all the while, for the column in use. No row of the column that comes is held to it, so the statement that
makes the values asks: a row of which the CHECK would not be true (false and NULL are the same to Delta) fails the statement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_schemamig.core.names import RESERVED_PREFIX
from airflow_provider_schemamig.core.schema.expressions.parse import with_values
from airflow_provider_schemamig.core.schema.model import Check
from airflow_provider_schemamig.core.schema.sql import string_sql

#: What the names of CHECKs begin with that stand for a NOT NULL.
NOT_NULL = f"{RESERVED_PREFIX}_not_null_"


@dataclass(frozen=True, slots=True)
class KeptCheck:
    """``expression``: the CHECK over a row as it is now, with the values that come in the place of columns."""

    check: Check
    expression: str

    @property
    def rule(self) -> str:
        """Return what to call it: it may stand for a NOT NULL."""
        return "NOT NULL" if self.check.name.startswith(NOT_NULL) else f"CHECK {self.check.name}"


def kept_checks(checks: Sequence[Check], column: str, values: Mapping[str, str]) -> tuple[KeptCheck, ...]:
    """Return the CHECKs that use ``column``, with ``values`` (column -> SQL) in the place of their columns. Raises NotFollowed."""
    used = [check for check in checks if with_values(check.expression, {column: "NULL"}) != check.expression]
    return tuple(KeptCheck(check, with_values(check.expression, values)) for check in used)


def guarded(value: str, kept: Sequence[KeptCheck], of: str) -> str:
    """Return ``value`` as SQL that raises an error in Spark if a CHECK would not hold. ``of``: SQL of what the error shows."""
    if not kept:
        return value
    shown = f"coalesce(CAST({of} AS STRING), 'NULL')"
    cases = (f"WHEN ({item.expression}) IS NOT TRUE THEN raise_error(concat({_message(item)}, {shown}))" for item in kept)
    return f"CASE {' '.join(cases)} ELSE {value} END"


def _message(item: KeptCheck) -> str:
    return string_sql(f"the {item.rule} does not hold for the other type of ")
