from __future__ import annotations

from tests.support.airflow import home as airflow_home

airflow_home.prepare()
