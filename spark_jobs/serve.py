"""The application that spark-submit runs: one driver, which runs the other files here for a task (``core/spark/job``)."""

import sys

from airflow_provider_schemamig.core.spark.job import serve

if __name__ == "__main__":
    sys.exit(serve())
