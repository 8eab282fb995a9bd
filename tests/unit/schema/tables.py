"""Declarations in short: ``table("a INT NOT NULL, b STRUCT<x: INT>")``."""

from __future__ import annotations

from airflow_provider_schemamig.core.release.sql.parse import parse_schema
from airflow_provider_schemamig.core.schema.model import Declaration, Field


def table(columns: str, clauses: str = "") -> Declaration:
    return parse_schema(f"CREATE TABLE flights ({columns}) {clauses}", "schema.sql")[0]


def field(text: str) -> Field:
    return table(text).fields[0]
