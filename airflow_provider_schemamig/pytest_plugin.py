"""The upgrade tests of a release folder as pytest's own items: ``pytest --schemamig-release flights_lake`` (docs/testing-releases.md).

pytest loads this module in every run on a machine that has the provider, so it imports nothing until a release is named.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_schemamig.exceptions import SchemamigError, raise_refusals

if TYPE_CHECKING:
    from airflow_provider_schemamig.core.testing.rehearse import Rehearsal
    from airflow_provider_schemamig.core.testing.results import UpgradePath

_OPTIONS = (
    ("released", "LIST|FILE", "what was released, in the order it came out"),
    ("tags", "PATTERN", "the same from git: tags of releases, e.g. 'v*'"),
    ("spark", "URL", "where Spark jobs run; without it, paths that need Spark are skipped"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("schemamig", "upgrade tests of release folders")
    group.addoption("--schemamig-release", action="append", metavar="DIR", help="test every upgrade path of this release folder")
    parser.addini("schemamig_release", "release folders whose upgrade paths are tested", type="paths", default=[])
    for name, metavar, text in _OPTIONS:
        group.addoption(f"--schemamig-{name}", metavar=metavar, help=text)
        parser.addini(f"schemamig_{name}", text)


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the items when all files are collected (and before ``-k`` chooses): they come from options and not from files."""
    named = config.getoption("--schemamig-release") or []
    folders = [config.invocation_params.dir / name for name in named] or list(config.getini("schemamig_release"))
    for folder in folders:
        items.extend(ReleaseFolder.from_parent(session, name=folder.name, nodeid=folder.name, folder=folder).collect())


class ReleaseFolder(pytest.Collector):
    """One release folder. What it works with is made by the first item that runs."""

    def __init__(self, *, folder: Path, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._folder = folder
        self._rehearsal: Rehearsal | None = None

    def collect(self) -> Iterator[pytest.Item]:
        """Yield one item a path; one item that fails, if the folder itself is refused."""
        try:
            rehearsal = self.rehearsal
        except SchemamigError as error:
            refused = error
            yield PathItem.from_parent(self, name="folder", run=lambda: raise_refusals([refused]))
            return
        for path in rehearsal.paths:
            yield PathItem.from_parent(self, name=path.id, run=self._run(path))

    @property
    def rehearsal(self) -> Rehearsal:
        from airflow_provider_schemamig.core.testing.rehearse import rehearsal
        from airflow_provider_schemamig.core.testing.workspace import workplace

        if self._rehearsal is None:
            stack = contextlib.ExitStack()
            self.config.add_cleanup(stack.close)
            place = stack.enter_context(workplace())
            options = {
                name: self.config.getoption(f"--schemamig-{name}") or self.config.getini(f"schemamig_{name}") for name, *_ in _OPTIONS
            }
            self._rehearsal = rehearsal(
                self._folder,
                place,
                jobs=_jobs(options["spark"]),
                released=options["released"] or None,
                tags=options["tags"] or None,
            )
        return self._rehearsal

    def _option(self, name: str) -> str | None:
        return self.config.getoption(f"--schemamig-{name}") or self.config.getini(f"schemamig_{name}") or None

    def _run(self, path: UpgradePath) -> Callable[[], None]:
        def run() -> None:
            from airflow_provider_schemamig.core.testing.report import errors_of
            from airflow_provider_schemamig.core.testing.results import PathVerdict

            result = self.rehearsal.run(path)
            if result.verdict is PathVerdict.NEEDS_SPARK:
                pytest.skip(f"needs Spark: {'; '.join(result.notes)} (--schemamig-spark)")
            raise_refusals(errors_of(self.rehearsal, result, f"schemamig test --release {self._folder.name}"))

        return run


class PathItem(pytest.Item):
    """One path, as a test."""

    def __init__(self, *, run: Callable[[], None], **arguments: Any) -> None:
        super().__init__(**arguments)
        self._run = run

    def runtest(self) -> None:
        self._run()

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the failure in words where the release is wrong; a traceback would only show this plugin."""
        return str(excinfo.value) if isinstance(excinfo.value, SchemamigError) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        parent = self.parent
        return Path(parent.name if parent is not None else "."), None, self.name


def _jobs(url: str | None) -> Any:
    from airflow_provider_schemamig.core.spark import runner_for

    return (lambda: runner_for(url)) if url else None
