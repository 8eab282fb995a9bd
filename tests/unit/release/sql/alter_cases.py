"""The collections that the statements of test_sql_alter are about."""

from __future__ import annotations

from airflow_provider_schemamig.core.release.sql.parse import parse_schema

SCHEMA = """
CREATE TABLE flights (
  id BIGINT, a INT NOT NULL, b STRING DEFAULT 'x', s STRUCT<x: INT, y: STRING, one: STRUCT<z: INT>>, arr ARRAY<STRUCT<x: INT, y: INT>>,
  m MAP<STRING, INT>, plane BIGINT, d DATE COMMENT 'day', e INT, f INT,
  CONSTRAINT pos CHECK (a > 0), CHECK (s.x > 0), CONSTRAINT inner_ CHECK (arr[0].x > 0), CONSTRAINT some CHECK (exists(arr, p -> p.y > 0)),
  PRIMARY KEY (id), CONSTRAINT u UNIQUE (b), UNIQUE (a, d),
  FOREIGN KEY (plane) REFERENCES planes, FOREIGN KEY (e) REFERENCES flights (f), FOREIGN KEY (e) REFERENCES years (year),
  CONSTRAINT fk FOREIGN KEY (f) REFERENCES years
) CLUSTER BY (d, s.y) TBLPROPERTIES ('k' = '1');
CREATE TABLE planes (id BIGINT, year INT, note STRING, PRIMARY KEY (id)) PARTITIONED BY (year);
CREATE TABLE years (year INT, PRIMARY KEY (year));
CREATE TABLE plain (a INT, b INT NOT NULL)
"""
DECLARATIONS = {declaration.name: declaration for declaration in parse_schema(SCHEMA, "schema.sql")}
