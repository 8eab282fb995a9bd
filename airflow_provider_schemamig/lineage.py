"""What OpenLineage is told (docs/lineage.md): tables with their new schemas, where their columns come from, and preflight's tests.

The one place that knows its client, which is imported only where OpenLineage's provider asks for something: without it nothing is missing.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from airflow_provider_schemamig.assets.schemamig import SCHEME, authority
from airflow_provider_schemamig.credentials import blank
from airflow_provider_schemamig.visible import visible

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_schemamig.core.schema.model import DataType, Field
    from airflow_provider_schemamig.core.upgrade.table_changes import DeploymentChanges, TableChange
    from airflow_provider_schemamig.exceptions import SchemamigError

_log = logging.getLogger(__name__)

#: Of one event: 1,000 tables in one would be megabytes, which backends refuse.
MOST_TABLES, MOST_FIELDS = 100, 2_000
#: What became of a table, in OpenLineage's words.
_LIFECYCLE = {"created": "CREATE", "altered": "ALTER", "renamed": "RENAME", "rewritten": "CREATE", "replaced": "CREATE", "removed": "DROP"}
#: The module that Airflow has loaded wherever OpenLineage is on.
_LISTENER = "airflow.providers.openlineage.plugins.listener"


def lineage(environment: str, changes: DeploymentChanges | None, tables: Sequence[TableChange]) -> Any:
    """Return what the provider takes from an operator: the tables as outputs, with what their rows came from as inputs."""
    from airflow.providers.openlineage.extractors import OperatorLineage

    outputs = [dataset(environment, change) for change in tables]
    facets = {} if changes is None else {"schemamig_deployment": _deployment_facet(changes)}
    return OperatorLineage(inputs=list(_inputs(environment, tables)), outputs=outputs, run_facets=facets)


def tests_lineage(asked: Iterable[Mapping[str, Any]], refusals: Sequence[SchemamigError], *, was_checked: bool) -> Any:
    """Return preflight's run with its tests: a passed one for each question that the rows answered, a failed one for each refusal.

    ``was_checked``: whether it came to the questions; else nothing is known of them.
    """
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.facet_v2 import test_run

    tests = [_failed(refusal) for refusal in refusals]
    if was_checked:
        tests += [
            test_run.TestExecution(
                name=visible(f"{question['collection']}: {_rule(question)}"), status="pass", severity="error", type=str(question["kind"])
            )
            for question in asked
        ]
        tests.append(test_run.TestExecution(name="plan", status="pass", severity="error", description="The plan can be carried out."))
    return OperatorLineage(run_facets={"test": test_run.TestRunFacet(tests=tests)})


def is_on() -> bool:
    """Return whether anybody is told: Airflow has loaded the provider's listener then."""
    return _LISTENER in sys.modules


def tell_rest(environment: str, tables: Sequence[TableChange]) -> None:
    """Send what is too much for the event at a task's end, in events of their own of the same run."""
    if not is_on():
        return
    with _harmless("more tables"):
        from airflow.providers.openlineage.api import emit_dataset_lineage

        for chunk in list(chunks(tables))[1:]:
            outputs: list[Any] = [dataset(environment, change) for change in chunk]
            emit_dataset_lineage(inputs=list(_inputs(environment, chunk)), outputs=outputs)


def spark_parent(context: Context | None) -> dict[str, str]:
    """Return the settings that hang Spark's OpenLineage events under the task, if ``[openlineage] spark_inject_parent_job_info`` asks for
    it, as Airflow's Spark operators do.
    """
    from airflow.sdk import conf

    if context is None or "ti" not in context or not conf.getboolean("openlineage", "spark_inject_parent_job_info", fallback=False):
        return {}
    found: dict[str, Any] = {}
    with _harmless("Spark's parent"):
        from airflow.providers.common.compat.openlineage.utils.spark import inject_parent_job_information_into_spark_properties

        found = inject_parent_job_information_into_spark_properties({}, context)
    return {str(key): str(value) for key, value in found.items()}


@contextlib.contextmanager
def _harmless(what: str) -> Iterator[None]:
    """Let no task fail over what OpenLineage is told beside its end; the provider itself guards the rest."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever its client raises; told in the log
        _log.warning("OpenLineage was not told (%s): %s: %s", what, type(error).__name__, visible(blank(str(error))))


def chunks(tables: Sequence[TableChange]) -> Iterator[list[TableChange]]:
    """Yield the tables in parts that fit into one event each; at least one, which may be empty."""
    part: list[TableChange] = []
    fields = 0
    for change in tables:
        size = len(change.new.fields) if change.new is not None else 0
        if part and (len(part) == MOST_TABLES or fields + size > MOST_FIELDS):
            yield part
            part, fields = [], 0
        part.append(change)
        fields += size
    yield part


# --- datasets ------------------------------------------------------------------------------------------------------------------------


def dataset(environment: str, change: TableChange) -> Any:
    """Return one table as an output: by its place, as Spark names it, with the collection's name as another one."""
    from openlineage.client.event_v2 import OutputDataset
    from openlineage.client.facet_v2 import (
        column_lineage_dataset,
        dataset_version_dataset,
        lifecycle_state_change_dataset,
        schema_dataset,
        symlinks_dataset,
    )

    space, name = _place(environment, change.uri or change.old_uri, change.collection)
    before = None
    if change.old is not None and change.kind == "renamed":
        before = lifecycle_state_change_dataset.PreviousIdentifier(name=change.old.name, namespace=_namespace(environment))
    facets: dict[str, Any] = {
        "lifecycleStateChange": lifecycle_state_change_dataset.LifecycleStateChangeDatasetFacet(
            lifecycleStateChange=lifecycle_state_change_dataset.LifecycleStateChange(_LIFECYCLE[change.kind]), previousIdentifier=before
        ),
        "symlinks": symlinks_dataset.SymlinksDatasetFacet(
            identifiers=[symlinks_dataset.Identifier(namespace=_namespace(environment), name=change.collection, type="TABLE")]
        ),
    }
    if change.table_version is not None:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=str(change.table_version))
    if change.new is not None:
        facets["schema"] = schema_dataset.SchemaDatasetFacet(fields=_schema(change.new.fields))
    if change.origins:
        fields = {path: _column(environment, change, origins) for path, origins in change.origins.items()}
        facets["columnLineage"] = column_lineage_dataset.ColumnLineageDatasetFacet(fields=fields)
    return OutputDataset(namespace=space, name=name, facets=facets)


def _inputs(environment: str, tables: Iterable[TableChange]) -> Iterator[Any]:
    """Yield the tables whose rows are in others now: rewritten ones, and what fills read."""
    from openlineage.client.event_v2 import InputDataset

    places: dict[tuple[str, str], None] = {}
    for change in tables:
        if change.kind not in ("altered", "renamed"):
            for origin in (origin for origins in change.origins.values() for origin in origins):
                places[_origin_place(environment, change, origin.collection)] = None
    yield from (InputDataset(namespace=space, name=name) for space, name in places)


def _column(environment: str, change: TableChange, origins: Sequence[Any]) -> Any:
    from openlineage.client.facet_v2 import column_lineage_dataset as facet

    found = []
    for origin in origins:
        space, name = _origin_place(environment, change, origin.collection)
        how = facet.Transformation(type="DIRECT", subtype="IDENTITY" if origin.is_copy else "TRANSFORMATION")
        found.append(facet.InputField(namespace=space, name=name, field=origin.column, transformations=[how]))
    return facet.Fields(inputFields=found)


def _origin_place(environment: str, change: TableChange, collection: str) -> tuple[str, str]:
    own = change.old is not None and change.old.name == collection
    return _place(environment, change.old_uri if own else None, collection)


def _place(environment: str, uri: str | None, collection: str) -> tuple[str, str]:
    """Return namespace and name of a table by its place; where that is not known, by the collection's name."""
    if uri is None:
        return _namespace(environment), collection
    parts = urlsplit(blank(uri))
    if parts.scheme == "file":
        return "file", unquote(parts.path)
    return f"{parts.scheme}://{parts.netloc}", unquote(parts.path.strip("/"))


def _namespace(environment: str) -> str:
    return f"{SCHEME}://{authority(environment)}"


def _schema(fields: Sequence[Field]) -> list[Any]:
    from openlineage.client.facet_v2 import schema_dataset

    from airflow_provider_schemamig.core.schema.sql import type_sql

    def field(number: int, item: Field) -> Any:
        return schema_dataset.SchemaDatasetFacetFields(
            name=item.name,
            type=type_sql(item.type).lower(),
            description=item.comment,
            ordinal_position=number,
            fields=_schema(_inner(item.type)),
        )

    return [field(number, item) for number, item in enumerate(fields, start=1)]


def _inner(kind: DataType) -> Sequence[Field]:
    from airflow_provider_schemamig.core.schema.model import Struct

    return kind.fields if isinstance(kind, Struct) else ()


# --- facets of a run -----------------------------------------------------------------------------------------------------------------


def _failed(refusal: SchemamigError) -> Any:
    from openlineage.client.facet_v2 import test_run

    name = f"{refusal.collection}: {refusal.code}" if refusal.collection else refusal.code
    return test_run.TestExecution(
        name=visible(name), status="fail", severity="error", type=refusal.code, description=visible(refusal.message, lines=True)
    )


def _rule(question: Mapping[str, Any]) -> str:
    """Return what a question asks: its rule in words where it has one, else its kind and columns."""
    columns = question.get("columns") or [question.get("column", "")]
    return str(question.get("rule") or f"{question['kind']} {', '.join(map(str, columns))}".strip())


def _deployment_facet(changes: DeploymentChanges) -> Any:
    """Return our own facet of the run: which release, and who let it through."""
    from openlineage.client.facet_v2 import RunFacet

    values = {
        "generation": int(changes.generation),
        "fromRelease": None if changes.source is None else str(changes.source),
        "toRelease": None if changes.target is None else str(changes.target),
        "isRollback": changes.is_rolled_back,
        "approver": changes.approved_by,
        "changedTables": len(changes.tables),
    }
    return RunFacet().with_additional_properties(**values)
