"""``--spark-conf`` and ``--spark-jars``: every command that takes ``--spark`` takes them, too."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, ParamSpec, TypeVar

import typer

P = ParamSpec("P")
R = TypeVar("R")

_CONF = Annotated[
    list[str] | None,
    typer.Option("--spark-conf", metavar="NAME=VALUE", help="A setting for Spark; several times.", show_default=False),
]
_JARS = Annotated[
    list[str] | None,
    typer.Option("--spark-jars", metavar="JAR,...", help="JARs for Spark beside Delta's: paths or URIs.", show_default=False),
]


class SparkAddress(str):
    """The value of ``--spark``, with the settings that go there."""

    conf: Mapping[str, str] = MappingProxyType({})


def with_spark_options(command: Callable[P, None]) -> Callable[P, None]:
    """Give a command with the parameter ``spark`` the two options; without it nothing changes."""
    signature = inspect.signature(command, eval_str=True)
    if "spark" not in signature.parameters:
        return command
    added = {"spark_conf": _CONF, "spark_jars": _JARS}
    found = list(signature.parameters.values())
    at = list(signature.parameters).index("spark") + 1
    found[at:at] = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind) for name, kind in added.items()]
    keywords = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in found]
    command.__signature__ = signature.replace(parameters=keywords)  # type: ignore[attr-defined]
    command.__annotations__ = {**command.__annotations__, **added}
    return command


def with_settings(function: Callable[P, R]) -> Callable[P, R]:
    """Call ``function`` with the two options in its ``spark``. Raises SparkSettingUnusable."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        options: dict[str, Any] = dict(kwargs)
        conf, jars = options.pop("spark_conf", None), options.pop("spark_jars", None)
        if conf or jars:
            from airflow_provider_schemamig.core.spark.conf import own_settings

            address = SparkAddress(options["spark"])
            address.conf = own_settings(conf or (), jars or ())
            options["spark"] = address
        return function(*args, **options)

    return run
