"""The lakes of ``fixtures/make.py`` for tests: of every format, and of one that never was (``v0``), so that there is an older one."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from airflow_provider_schemamig.core.jsonable import canonical
from airflow_provider_schemamig.core.ledger.codec import RawRow
from airflow_provider_schemamig.core.ledger.format.formats import FORMATS, Format, Formats, Step
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from tests.unit.ledger.format.fixtures.make import LAKES, make
from tests.unit.ledger.format.locking import draft
from tests.unit.ledger.format.synthetic import objects_v0, v0_to_v1
from tests.unit.ledger.samples import append_raw

ARCHIVES = {path.name.removesuffix(".tar.gz"): path for path in sorted((Path(__file__).parents[1] / "fixtures").glob("*.tar.gz"))}
#: Those of the draft are not archived: made by the software as it is.
NAMES = sorted({*ARCHIVES, *(() if draft() is None else LAKES)})
OLDER = "v0"
_RENAMED: Mapping[str, Mapping[str, str]] = {"objects": {"fingerprint": "mark"}, "config": {}}


def unpack(name: str, folder: Path, cache: Path) -> None:
    """Put a lake and its release folders into ``folder``. ``cache``: where a draft's lake is made, once."""
    real = f"v{FORMATS.current}" if name == OLDER else name
    if real in ARCHIVES:
        with tarfile.open(ARCHIVES[real]) as packed:
            packed.extractall(folder, filter="data")
    else:
        if not (cache / real).exists():
            make(cache / real, LAKES[real])
        shutil.copytree(cache / real, folder, dirs_exist_ok=True)
    if name == OLDER:
        _bring_down(EnvironmentRoot.open(str(folder / "lake")))


@contextmanager
def older_known() -> Iterator[None]:
    """Let this software know format 0 and the step from it, everywhere."""
    formats, steps = FORMATS.formats, FORMATS.steps
    object.__setattr__(FORMATS, "formats", (Format(0, lambda: objects_v0.TYPES), *formats))
    object.__setattr__(FORMATS, "steps", (Step.of(0, v0_to_v1), *steps))
    try:
        yield
    finally:
        object.__setattr__(FORMATS, "formats", formats)
        object.__setattr__(FORMATS, "steps", steps)


def known_to(number: int) -> Formats:
    """What the software knows whose own format is ``number``."""
    count = number - FORMATS.minimum
    return Formats(FORMATS.formats[: count + 1], FORMATS.steps[:count])


def _bring_down(env: EnvironmentRoot) -> None:
    """Write the ledger's rows as software of format 0 would have."""
    state = LedgerReader(env).state()
    rows = []
    for collection, names in _RENAMED.items():
        for key, text in state.raw[collection].items():
            row = {names.get(name, name): value for name, value in json.loads(text).items()}
            if "format_version" in row:
                row["format_version"] = 0
            elif collection == "config":
                continue
            rows += [RawRow(collection, key, text, state.version + 1, -1), RawRow(collection, key, canonical(row), state.version + 1, 1)]
    append_raw(env, *rows)
