"""A data product under test: release folders, one a version, each as it stood when that version was the head."""

from __future__ import annotations

import shutil
from pathlib import Path

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.release.authoring.scaffold import snapshot


class Product:
    """Writes releases one after the other; every folder it returns is a whole release folder that stays as it is."""

    def __init__(self, folder: Path, name: str = "lake") -> None:
        self._folder = folder
        self._name = name
        self._newest: Path | None = None
        self._minimum: str | None = None

    def release(self, version: str, schema: str, steps: str = "", doc: str = "A test release.\n\nWhy: to test.") -> Path:
        """``schema``: schema.sql. ``steps``: the calls inside ``STEPS = [...]``, for every release but the first."""
        folder = self._folder / version
        if self._newest is None:
            folder.mkdir(parents=True)
        else:
            shutil.copytree(self._newest, folder)
        self._minimum = self._minimum or version
        settings = f'name = "{self._name}"\nversion = "{version}"\nmin_version = "{self._minimum}"\n'
        (folder / "release.toml").write_text(settings)
        (folder / "schema.sql").write_text(schema)
        if self._newest is not None:
            migrations = folder / "migrations"
            migrations.mkdir(exist_ok=True)
            (migrations / f"{Version.parse(version).module_name}.py").write_text(module(steps, doc))
        snapshot(folder)
        self._newest = folder
        return folder


def module(steps: str, doc: str) -> str:
    names = [name for name in ("evolution", "removal", "replacement", "rewrite") if f"{name}(" in steps]
    imports = f"from airflow_provider_schemamig import {', '.join(names)}\n\n" if names else ""
    return f'"""{doc}\n"""\n\n{imports}STEPS = [{steps}]\n'
