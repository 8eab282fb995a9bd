"""Spark settings of the user's own, and how they go together with ours."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path

from airflow_provider_schemamig.core.spark.errors import SparkSettingUnusable
from airflow_provider_schemamig.credentials import blank_own

#: Lists, of which everybody's items count; of all other settings there is one.
LISTS = ("spark.jars", "spark.sql.extensions")
#: The old name of all schemes' LogStore at once; Delta refuses both names together.
_ONE_LOG_STORE = "spark.delta.logStore.class"
#: Names that speak of a secret and say only where it lies, or who asks for it.
_WHERE = re.compile(r"(?:file|path|providers?|type|enabled|class)$", re.IGNORECASE)
_PROPERTY = re.compile(r"\s*([^\s=:]+)\s*[=:\s]\s*(.*?)\s*")


def own_settings(conf: Mapping[str, str] | Iterable[str], jars: Iterable[str] = ()) -> dict[str, str]:
    """Return Spark settings that a person gave, as a mapping or as ``NAME=VALUE`` each, with ``jars`` among them.

    Raises SparkSettingUnusable: no ``NAME=VALUE``, no setting of Spark's, or a credential, which would be shown.
    """
    settings, files = dict(conf) if isinstance(conf, Mapping) else dict(map(_pair, conf)), ",".join(jars)
    if blank_own(files) != files:
        raise SparkSettingUnusable(setting="spark.jars", reason="it may hold a credential, which would be shown here")
    for name, value in settings.items():
        if not name.startswith("spark."):
            raise SparkSettingUnusable(setting=name, reason="its name does not begin with spark.")
        if _WHERE.search(name) is None and blank_own(f"{name}={value}") != f"{name}={value}":
            raise SparkSettingUnusable(setting=name, reason="it may hold a credential, which would be shown here")
    return joined(settings, {"spark.jars": files})


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not (name and separator):
        raise SparkSettingUnusable(setting=name, reason="it is not NAME=VALUE")
    return name.strip(), value


def joined(*settings: Mapping[str, str]) -> dict[str, str]:
    """Return all settings; the last one that has a name counts, and of lists all items, the first ones first."""
    found: dict[str, str] = {}
    for some in settings:
        found.update(some)
    for name in LISTS:
        items = [item.strip() for some in settings for item in some.get(name, "").split(",") if item.strip()]
        found[name] = ",".join(dict.fromkeys(items))
    return {name: value for name, value in found.items() if value or name not in LISTS}


def without_chosen_log_stores(ours: Mapping[str, str], *theirs: Mapping[str, str]) -> dict[str, str]:
    """Return our LogStores but for those that somebody chose another one for."""
    if any(_ONE_LOG_STORE in some for some in theirs):
        return {}
    return {name: value for name, value in ours.items() if not any(name in some for some in theirs)}


def spark_defaults(own_spark: bool) -> dict[str, str]:
    """Return the settings in ``spark-defaults.conf`` of the Spark that will be started.

    ``own_spark``: pyspark's, whatever SPARK_HOME says.
    """
    folder = os.environ.get("SPARK_CONF_DIR")
    home = None if own_spark else os.environ.get("SPARK_HOME")
    if folder is None and home is None:
        spec = find_spec("pyspark")
        home = str(Path(spec.origin).parent) if spec is not None and spec.origin else None
    path = Path(folder) if folder else Path(home or ".", "conf")
    try:
        text = (path / "spark-defaults.conf").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("#", "!")))
    return {match[1]: match[2] for line in lines if (match := _PROPERTY.fullmatch(line)) is not None}
