"""Protocol numbers and feature lists, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_schemamig.core.delta.features import (
    KNOWN,
    CatalogManagedTable,
    UnsupportedFeature,
    check_writable,
    effective_features,
    missing_features,
    new_protocol,
    protocol_faults,
    with_features,
)

BASIC = {"appendOnly", "invariants"}


def legacy(reader: int, writer: int) -> dict[str, Any]:
    return {"minReaderVersion": reader, "minWriterVersion": writer}


def listed(reader: int, writers: set[str], readers: set[str] | None = None) -> dict[str, Any]:
    lists = {"writerFeatures": sorted(writers)} | ({} if readers is None else {"readerFeatures": sorted(readers)})
    return legacy(reader, 7) | lists


@pytest.mark.parametrize(
    "protocol, features",
    [
        (legacy(1, 1), set()),
        (legacy(1, 2), BASIC),
        (legacy(1, 3), BASIC | {"checkConstraints"}),
        (legacy(1, 4), BASIC | {"checkConstraints", "changeDataFeed", "generatedColumns"}),
        (legacy(2, 5), BASIC | {"checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping"}),
        (legacy(2, 6), BASIC | {"checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping", "identityColumns"}),
        # Column mapping is of readers, too: numbers say it only if both do.
        (legacy(1, 6), BASIC | {"checkConstraints", "changeDataFeed", "generatedColumns", "identityColumns"}),
        (legacy(1, 5), BASIC | {"checkConstraints", "changeDataFeed", "generatedColumns"}),
        (legacy(2, 4), BASIC | {"checkConstraints", "changeDataFeed", "generatedColumns"}),
        (legacy(2, 2), BASIC),
        (listed(1, {"invariants"}), {"invariants"}),
        (listed(2, {"columnMapping"}), {"columnMapping"}),
        (listed(3, {"timestampNtz", "appendOnly"}, {"timestampNtz"}), {"timestampNtz", "appendOnly"}),
    ],
)
def test_numbers_imply_features(protocol: dict[str, Any], features: set[str]) -> None:
    assert effective_features(protocol) == features


@pytest.mark.parametrize(
    "protocol, needed, expected",
    [
        # A number that says exactly what is needed keeps old readers and writers going.
        (legacy(1, 2), {"checkConstraints"}, legacy(1, 3)),
        (legacy(1, 3), {"changeDataFeed", "generatedColumns"}, legacy(1, 4)),
        # Otherwise every implied feature is listed.
        (legacy(1, 2), {"changeDataFeed"}, listed(1, BASIC | {"changeDataFeed"})),
        (legacy(1, 2), {"allowColumnDefaults"}, listed(1, BASIC | {"allowColumnDefaults"})),
        (legacy(1, 3), {"timestampNtz"}, listed(3, BASIC | {"checkConstraints", "timestampNtz"}, {"timestampNtz"})),
        # Column mapping: only ever at (3,7), although (2,5) could say it.
        (legacy(1, 2), {"columnMapping"}, listed(3, BASIC | {"columnMapping"}, {"columnMapping"})),
        (
            legacy(1, 4),
            {"columnMapping"},
            listed(3, BASIC | {"checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping"}, {"columnMapping"}),
        ),
        (
            legacy(2, 5),
            {"typeWidening"},
            listed(
                3,
                BASIC | {"checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping", "typeWidening"},
                {"columnMapping", "typeWidening"},
            ),
        ),
        (
            legacy(1, 6),
            {"columnMapping"},
            listed(
                3, BASIC | {"checkConstraints", "changeDataFeed", "generatedColumns", "identityColumns", "columnMapping"}, {"columnMapping"}
            ),
        ),
        (listed(2, {"columnMapping"}), {"appendOnly"}, listed(3, {"columnMapping", "appendOnly"}, {"columnMapping"})),
        (listed(3, {"appendOnly"}, set()), {"invariants"}, listed(3, BASIC, set())),
    ],
)
def test_protocols_are_raised_by_exactly_what_is_needed(protocol: dict[str, Any], needed: set[str], expected: dict[str, Any]) -> None:
    raised = with_features(protocol, needed)
    assert raised == expected
    assert protocol_faults(raised) == []
    assert effective_features(raised) == effective_features(protocol) | needed


def test_features_what_is_there_is_not_emitted_again() -> None:
    protocol = {**listed(3, {"typeWidening-preview"}, {"typeWidening-preview"}), "unknown": 1}
    assert with_features(protocol, {"typeWidening"}) is protocol
    assert missing_features(protocol, {"typeWidening"}) == set()
    assert with_features(protocol, {"invariants"})["unknown"] == 1


def test_a_new_table_is_as_old_as_possible() -> None:
    assert new_protocol(set()) == legacy(1, 2)
    assert new_protocol({"invariants"}) == legacy(1, 2)
    assert new_protocol({"clustering", "domainMetadata"}) == listed(1, BASIC | {"clustering", "domainMetadata"})


@pytest.mark.parametrize("feature", sorted(KNOWN))
def test_known_features_are_written(feature: str) -> None:
    check_writable(listed(3, {feature}, {feature}), "file:///t")


@pytest.mark.parametrize("feature", ["icebergCompatV2", "collations-preview", "geospatial", "someday", "redirectWriterOnly-preview"])
def test_unknown_features_are_refused_in_words(feature: str) -> None:
    with pytest.raises(UnsupportedFeature, match=feature):
        check_writable(listed(1, {feature}), "file:///t")
    with pytest.raises(UnsupportedFeature, match=feature):
        check_writable(listed(3, set(), {feature}), "file:///t")


@pytest.mark.parametrize("feature", ["catalogManaged", "coordinatedCommits-preview"])
def test_catalog_managed_tables_are_refused(feature: str) -> None:
    with pytest.raises(CatalogManagedTable):
        check_writable(listed(3, {feature}, {feature}), "file:///t")


@pytest.mark.parametrize("protocol", [legacy(4, 7) | {"writerFeatures": [], "readerFeatures": []}, legacy(1, 8) | {"writerFeatures": []}])
def test_protocols_of_the_future_are_refused(protocol: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedFeature, match=r"min(Reader|Writer)Version"):
        check_writable(protocol, "file:///t")


@pytest.mark.parametrize(
    "protocol",
    [
        legacy(1, 7),
        legacy(3, 7) | {"writerFeatures": []},
        legacy(1, 2) | {"writerFeatures": []},
        listed(3, set(), {"timestampNtz"}),
        listed(3, {"timestampNtz"}, set()),
    ],
)
def test_illegal_protocols_are_seen(protocol: dict[str, Any]) -> None:
    assert protocol_faults(protocol)
