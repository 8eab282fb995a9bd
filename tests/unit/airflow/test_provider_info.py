from __future__ import annotations

import importlib
import inspect
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from airflow_provider_schemamig import config
from airflow_provider_schemamig.get_provider_info import get_provider_info

PACKAGE = Path(config.__file__).parent
ROOT = PACKAGE.parent


def provider_schema() -> dict[str, Any]:
    spec = find_spec("airflow")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    path = Path(spec.submodule_search_locations[0]) / "provider_info.schema.json"
    schema: dict[str, Any] = json.loads(path.read_text())
    return schema


def test_the_info_is_what_airflow_accepts() -> None:
    jsonschema.validate(get_provider_info(), provider_schema())


def test_the_schema_would_notice_a_mistake() -> None:
    broken = get_provider_info()
    del broken["config"][config.SECTION]["options"]["poll_interval"]["type"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, provider_schema())


def test_the_package_is_named_as_it_is_distributed() -> None:
    pyproject = (ROOT / "pyproject.toml").read_text()
    assert f'name = "{get_provider_info()["package-name"]}"' in pyproject
    assert 'provider_info = "airflow_provider_schemamig.get_provider_info:get_provider_info"' in pyproject
    assert 'schemamig = "airflow_provider_schemamig.plugins.schemamig:SchemamigPlugin"' in pyproject


def test_discovery_imports_nothing_of_airflow() -> None:
    code = "import sys, airflow_provider_schemamig.get_provider_info as p; p.get_provider_info(); print('airflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout == "False\n"


@pytest.mark.parametrize(
    ("key", "base"),
    [("operators", "BaseOperator"), ("sensors", "BaseSensorOperator"), ("triggers", "BaseTrigger"), ("hooks", "BaseHook")],
)
def test_every_module_with_a_public_class_is_listed(key: str, base: str) -> None:
    listed = {module for entry in get_provider_info()[key] for module in entry["python-modules"]}
    defining = set()
    for path in (PACKAGE / key).glob("*.py"):
        module = importlib.import_module(f"airflow_provider_schemamig.{key}.{path.stem}")
        classes = [kind for _, kind in inspect.getmembers(module, inspect.isclass) if kind.__module__ == module.__name__]
        if path.stem not in ("base", "committing") and any(base in {parent.__name__ for parent in kind.__mro__} for kind in classes):
            defining.add(module.__name__)
    assert listed == defining


def test_provider_info_what_is_named_by_path_exists() -> None:
    info = get_provider_info()
    module, _, name = info["connection-types"][0]["hook-class-name"].rpartition(".")
    assert inspect.isclass(getattr(importlib.import_module(module), name))


def test_the_plugin_is_registered_once() -> None:
    """By its entry point."""
    assert "plugins" not in get_provider_info()


def test_every_field_of_the_form_shows_an_example() -> None:
    (form,) = get_provider_info()["connection-types"]
    assert set(form["ui-field-behaviour"]["placeholders"]) == set(form["conn-fields"])


def test_the_form_offers_every_setting_the_hook_reads() -> None:
    from airflow_provider_schemamig.hooks.schemamig import Settings

    fields = set(get_provider_info()["connection-types"][0]["conn-fields"])
    assert fields == {*Settings.__dataclass_fields__, "storage_secrets", "spark_jars"}  # which the hook puts among the others


def test_options_are_read_from_airflows_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (config.fill_chunk_size(), config.poll_interval()) == (10, 30.0)
    monkeypatch.setenv("AIRFLOW__SCHEMAMIG__FILL_CHUNK_SIZE", "0")
    monkeypatch.setenv("AIRFLOW__SCHEMAMIG__POLL_INTERVAL", "2.5")
    monkeypatch.setenv("AIRFLOW__SCHEMAMIG__DEFAULT_ENVIRONMENT", "s3://lake/prod")
    assert (config.fill_chunk_size(), config.poll_interval(), config.default_environment()) == (1, 2.5, "s3://lake/prod")


def test_airflow_knows_the_scheme_of_our_assets() -> None:
    from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

    from airflow_provider_schemamig.assets import schemamig

    manager = ProvidersManagerTaskRuntime()  # type: ignore[no-untyped-call]
    assert manager.asset_uri_handlers[schemamig.SCHEME] is schemamig.sanitize_uri
    assert manager.asset_factories[schemamig.SCHEME] is schemamig.table_asset
    assert manager.asset_to_openlineage_converters[schemamig.SCHEME] is schemamig.to_openlineage
