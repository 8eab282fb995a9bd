"""The application that spark-submit runs: one driver, which runs the other files here for a task (``core/spark/driver/job``)."""

import sys

from airflow_provider_schemamig.core.spark.driver.job import serve

if __name__ == "__main__":
    sys.exit(serve())
