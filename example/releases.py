"""A release folder as it was when an earlier version was its head: the demo starts where a user of 1.0.0 is."""

from __future__ import annotations

import shutil
from pathlib import Path

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.release.folder import load_release
from airflow_provider_schemamig.core.release.lock import module_file, snapshot_file
from airflow_provider_schemamig.core.release.scaffold import snapshot


def cut_back(folder: Path, version: Version, to: Path) -> Path:
    """Copy the release ``folder`` to ``to`` as it was at ``version``: nothing later in it, ``schema.sql`` equal to that version's snapshot.

    Raises what ``load_release`` raises if ``folder`` is not right. Gives ``to``, which must not exist.
    """
    release = load_release(folder)
    (to / "snapshots").mkdir(parents=True)
    (to / "migrations").mkdir()
    for kept in (v for v in release.versions if v <= version):
        shutil.copyfile(folder / snapshot_file(kept), to / snapshot_file(kept))
        if kept in release.modules:
            shutil.copyfile(folder / module_file(kept), to / module_file(kept))
    shutil.copyfile(folder / snapshot_file(version), to / "schema.sql")
    settings = {"name": release.name, "version": version, "min_version": release.min_version}
    (to / "release.toml").write_text("".join(f'{key} = "{value}"\n' for key, value in settings.items()))
    snapshot(to)  # writes the lock
    return to
