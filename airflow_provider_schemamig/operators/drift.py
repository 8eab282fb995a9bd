"""The three ways on from drift, and the way in: whose tables these are, and what they look like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.operators.arguments import (
    as_choice,
    as_flag,
    as_mapping,
    as_place,
    as_text,
    release_folder,
)
from airflow_provider_schemamig.operators.base import DocumentOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class AcceptOperator(DocumentOperator):
    """Drift: take what somebody did to tables into the release, as its next version with the steps inferred.

    Writes into the release folder where the task runs, so let that be a folder which outlives the task; a folder that has this very version
    already (another environment's drift was accepted into it) is left as it is.

    :param release: (templated) the release folder; a relative path is looked for in the folder of the DAG file.
    :param collections: (templated) only these; all that drifted if not given.
    """

    template_fields: Sequence[str] = (*DocumentOperator.template_fields, "release", "collections")
    ui_color = "#f3e3c7"

    def __init__(self, *, release: str, collections: Sequence[str] | str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.release = release
        self.collections = collections

    def run_verb(self, context: Context) -> dict[str, Any]:
        from airflow_provider_schemamig.core import commands

        return commands.accept(self.hook.environment, release_folder(self.release, context), as_choice(self.collections)).to_json()


class RevertOperator(DocumentOperator):
    """Drift: undo what somebody did to a table, in one metadata commit.

    :param collection: (templated) the collection whose table drifted.
    :param allow_lossy: (templated) whether to go on if values are lost with it.
    """

    template_fields: Sequence[str] = (*DocumentOperator.template_fields, "collection", "allow_lossy")
    ui_color = "#f2cfcf"

    def __init__(self, *, collection: str, allow_lossy: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.collection = collection
        self.allow_lossy = allow_lossy

    def run_verb(self, context: Context) -> dict[str, Any]:
        from airflow_provider_schemamig.core import commands

        name, lossy = as_text("collection", self.collection, "the collection whose table drifted"), as_flag("allow_lossy", self.allow_lossy)
        return commands.revert(self.hook.environment, name, allow_lossy=lossy, listen=self.listener()).to_json()


class UnmanageOperator(DocumentOperator):
    """Give a collection's table back: the environment forgets it, the table stays as it is.

    :param collection: (templated) the collection.
    """

    template_fields: Sequence[str] = (*DocumentOperator.template_fields, "collection")
    ui_color = "#f2cfcf"

    def __init__(self, *, collection: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.collection = collection

    def run_verb(self, context: Context) -> dict[str, Any]:
        from airflow_provider_schemamig.core import commands

        return commands.unmanage(self.hook.environment, as_text("collection", self.collection, "the collection to stop managing")).to_json()


class AdoptOperator(DocumentOperator):
    """Take existing Delta tables under management, without a commit on them: write what they are into the release, record them.

    Writes into the release folder where the task runs, as ``AcceptOperator`` does; a folder that declares the tables already is left as
    it is.

    :param release: (templated) the release folder; a relative path is looked for in the folder of the DAG file.
    :param tables: (templated) the tables' URIs or paths, by the collection that each becomes.
    :param create: (templated) whether an environment is made where none is; otherwise that fails (``no_environment``).
    """

    template_fields: Sequence[str] = (*DocumentOperator.template_fields, "release", "tables", "create")
    ui_color = "#f3e3c7"

    def __init__(self, *, release: str, tables: Mapping[str, str], create: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.release = release
        self.tables = tables
        self.create = create

    def run_verb(self, context: Context) -> dict[str, Any]:
        from airflow_provider_schemamig.core import commands

        folder, create = release_folder(self.release, context), as_flag("create", self.create)
        given = as_mapping("tables", self.tables, "a mapping of names to URIs")
        tables = [(name, as_place(f"the table of {name}", place, "a URI or an absolute path")) for name, place in given.items()]
        return commands.adopt(self.hook.environment, folder, tables, create=create).to_json()
