"""What every start of Spark prints is not shown; what is real is."""

from __future__ import annotations

import logging
import os

import pytest

from airflow_provider_schemamig.core.spark.java_output import is_noise, pass_on, passed_on

START = """\
WARNING: Using incubator modules: jdk.incubator.vector
Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
26/11/24 03:29:34 WARN Utils: Your hostname, vm, resolves to a loopback address: 127.0.0.1; using 192.0.2.2 instead (on interface eth0)
26/11/24 03:29:34 WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address
26/11/24 03:29:46 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform... using builtin-java classes
Setting default log level to "WARN".
To adjust logging level use sc.setLogLevel(newLevel). For SparkR, use setLogLevel(newLevel).
Setting Spark log level to "FATAL".
"""
REAL = (
    "Error occurred during initialization of VM",
    "java.lang.OutOfMemoryError: Java heap space",
    "26/11/24 03:29:34 ERROR SparkContext: Error initializing SparkContext.",
    "26/11/24 03:29:34 WARN Utils: Service 'sparkDriver' could not bind on port 0.",
    "\tat org.apache.spark.SparkContext.<init>(SparkContext.scala:1)",
)


@pytest.mark.parametrize("line", START.splitlines())
def test_java_output_what_every_start_prints_is_noise(line: str) -> None:
    assert is_noise(line)


@pytest.mark.parametrize("line", REAL)
def test_java_output_what_is_real_is_shown(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    pass_on([f"{text}\n" for text in (*START.splitlines(), line)])
    assert capsys.readouterr().err == line.replace("\t", "␉") + "\n"


def test_a_line_is_told_at_its_own_level_and_a_trace_at_that_of_its_error() -> None:
    told: list[tuple[int, str]] = []
    lines = (
        REAL[0],
        "OpenJDK 64-Bit Server VM warning: Sharing is off",
        REAL[3],
        REAL[2],
        REAL[4],
        "26/11/24 03:29:34 INFO Utils: all is well",
    )
    pass_on(lines, lambda level, text: told.append((level, text.strip())))
    assert [level for level, _ in told] == [logging.ERROR, logging.WARNING, logging.WARNING, logging.ERROR, logging.ERROR, logging.INFO]


def test_the_last_words_of_a_start_that_fails_come_before_its_error(capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> None:
        with passed_on() as output:
            os.write(output, f"{START}{REAL[0]}\n".encode())
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert capsys.readouterr().err == f"{REAL[0]}\n"
