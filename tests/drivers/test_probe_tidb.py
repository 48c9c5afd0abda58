"""The probe of a TiDB node with recorded answers: complete, refused, and lost at each statement."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dbops.drivers.probe import ProbeTarget, probe_instance
from dbops.drivers.probe_tidb import MOST_REGIONS, REGION_BYTES, leaders, read_tidb
from dbops.engine.capacity.tidb_placement import skew_of, why_hot
from dbops.engine.facts.instance import InstanceFacts, from_record, to_record
from dbops.engine.facts.tidb import TidbFacts
from tests.drivers.sql_literals import OF_TIDB, literals
from tests.fakes import FakeShell
from tests.tidb import Replay

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
RECORDED = Path(__file__).parents[1] / "engine" / "recorded" / "tidb-8.4" / "probe.json"
ACTS: list[dict[str, Any]] = json.loads(RECORDED.read_text(encoding="utf-8"))
TARGET = ProbeTarget("/nowhere", is_tidb=True)
#: Statements without which the node counts as unreachable.
NEEDED = ("SELECT VERSION()", "SHOW FULL PROCESSLIST")


def probe(
    acts: list[dict[str, Any]], *, lost: int | None = None, previous: InstanceFacts | None = None
) -> InstanceFacts:
    return probe_instance(TARGET, FakeShell(), lambda: Replay(acts, lost=lost), NOW, previous)


def tidb(facts: InstanceFacts) -> TidbFacts:
    assert facts.server
    assert facts.server.tidb
    return facts.server.tidb


@pytest.mark.recorded("TiDB 8.4", "statements")
def test_node_is_read_from_recorded_answers() -> None:
    facts = probe(ACTS)
    found = tidb(facts)
    assert (found.release, found.store, found.tikv_nodes) == ("8.4.0", "unistore", 1)
    assert facts.server
    assert facts.server.kind
    assert (facts.server.flavor, facts.server.kind.product, facts.server.group) == ("tidb", "TiDB", None)
    assert facts.growth
    assert (facts.growth.tables, facts.growth.schemas) == (9, 3)
    known = {one.table: one for one in found.placements or ()}
    assert (known["parts"].partition_method, known["parts"].partitions, known["parts"].regions) == ("KEY", 12, 12)
    assert (known["sharded"].sharding, known["sharded"].regions) == ("SHARD_BITS=4", 8)
    assert known["random"].sharding.startswith("PK_AUTO_RANDOM_BITS")
    assert {name for name in ("orders", "heap", "loose", "sharded", "parts", "random") if why_hot(known[name])} == {
        *("orders", "heap", "loose")
    }
    assert from_record(InstanceFacts, json.loads(json.dumps(to_record(facts)))) == facts


def test_every_statement_of_the_probe_is_recorded() -> None:
    own = [one for one in literals() if one.file == OF_TIDB[0]]
    sent = [act["sql"].replace("%%", "%") for act in ACTS]
    assert [str(one) for one in own if not any(one.pattern.match(text) for text in sent)] == []
    assert own


@pytest.mark.parametrize("number", range(len(ACTS)))
def test_rejected_statement_makes_its_value_unknown(number: int) -> None:
    """Error 1105, 1193, 1235, 1064 or 8xxx of another release or store."""
    rejected = ACTS[number]
    acts = [{**act, "error": "1105"} if act is rejected else act for act in ACTS]
    facts = probe(acts)
    assert (facts.server is None) == rejected["sql"].startswith(NEEDED)
    assert bool(facts.server_problem) == (facts.server is None)


def test_node_that_answers_the_version_alone_is_read() -> None:
    facts = probe([act for act in ACTS if act["sql"].startswith(NEEDED)])
    found = tidb(facts)
    assert (found.nodes, found.tables, found.placements, found.release) == (None, None, None, "8.4.0")


@pytest.mark.parametrize("lost", range(len(ACTS)))
def test_lost_connection_ends_the_hourly_reading_alone(lost: int) -> None:
    facts = probe(ACTS, lost=lost)
    hourly = next(
        number for number, act in enumerate(ACTS) if "COUNT(*) AS found FROM information_schema.SCHEMATA" in act["sql"]
    )
    assert (facts.server is not None) == (lost >= hourly)
    if facts.server is None:
        assert facts.server_problem
        assert facts.server_problem.code == "mysql.unreachable"


def test_tables_before_a_lost_connection_are_kept() -> None:
    second = [number for number, act in enumerate(ACTS) if "REGIONS" in act["sql"]][1]
    found = tidb(probe(ACTS, lost=second)).placements or ()
    assert [one.stores is None for one in found] == [False, *[True] * (len(found) - 1)]
    assert all(bool(one.problem) == (one.stores is None) for one in found)


def test_placement_is_kept_between_two_hourly_readings() -> None:
    first = probe(ACTS)
    again = probe([act for act in ACTS if "REGIONS" not in act["sql"]], previous=first)
    assert tidb(again).placements == tidb(first).placements
    assert again.growth == first.growth
    late = Replay(ACTS)
    found = read_tidb(late, "8.0.11-TiDB-v8.4.0", "", now=NOW + timedelta(hours=2), previous=first, grows=False)
    assert found.growth is None
    assert found.facts.tidb
    assert found.facts.tidb.read_at == NOW


def test_role_and_server_must_agree() -> None:
    mysql = [{"sql": ACTS[0]["sql"], "parameters": [], "rows": [{"version": "8.0.46", "comment": "MySQL"}]}]
    other = probe(mysql)
    assert other.server is None
    assert other.server_problem
    assert other.server_problem.code == "flavor.not_tidb"
    as_mysql = probe_instance(ProbeTarget("/nowhere"), FakeShell(), lambda: Replay(ACTS), NOW)
    assert as_mysql.server is None
    assert as_mysql.server_problem
    assert as_mysql.server_problem.code == "flavor.tidb"


def test_large_table_is_not_listed() -> None:
    largest = next(act for act in ACTS if "TIDB_ROW_ID_SHARDING_INFO" in act["sql"])
    rows = [
        {**row, "bytes": (MOST_REGIONS + 1) * REGION_BYTES if row["n"] == "orders" else 0} for row in largest["rows"]
    ]
    found = tidb(probe([{**act, "rows": rows} if act is largest else act for act in ACTS])).placements or ()
    assert [one.table for one in found if one.stores is None] == ["orders"]
    assert all(one.problem for one in found if one.stores is None)


def test_leaders_are_counted_by_store_and_each_region_once() -> None:
    """Rows of a cluster with three stores, in the shape of the recorded ones."""
    shape = next(act for act in ACTS if "REGIONS" in act["sql"])["rows"][0]
    places = [(1, 4, 900), (2, 4, 50), (3, 5, 50), (3, 5, 50), (4, 1, 0)]
    rows = [
        {**shape, "REGION_ID": region, "LEADER_STORE_ID": store, "WRITTEN_BYTES": size}
        for region, store, size in places
    ]
    found = leaders(rows)
    assert [(one.store, one.regions, one.written_bytes) for one in found] == [(4, 2, 950), (1, 1, 0), (5, 1, 50)]
    skew = skew_of(found, 3)
    assert skew
    assert (skew.store, skew.by_bytes, round(skew.factor, 2)) == (4, True, 2.85)
