# One image for Airflow's services and for Spark's: driver and executors need the same Python and the same packages.
FROM python:3.11-slim-bookworm

RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
 && rm -rf /var/lib/apt/lists/*

RUN groupadd --gid 50000 schemamig \
 && useradd --create-home --uid 50000 --gid 50000 schemamig \
 && install --directory --owner schemamig /opt/schemamig /opt/airflow /lake
USER schemamig
WORKDIR /opt/schemamig

COPY --chown=schemamig . .
RUN ops/setup.sh

# SPARK_HOME is what pip's pyspark calls its home; the Spark daemons start from there. SPARK_CONF_DIR: what a task may take.
ENV PATH=/opt/schemamig/.venv/bin:$PATH \
    SPARK_HOME=/opt/schemamig/.venv/lib/python3.11/site-packages/pyspark \
    SPARK_CONF_DIR=/opt/schemamig/ops/spark \
    SPARK_LOCAL_DIRS=/tmp
