from __future__ import annotations

from tests.support import airflow_home

airflow_home.prepare()
