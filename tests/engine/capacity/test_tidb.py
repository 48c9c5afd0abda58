"""TiDB tables: how uneven they are, and statements that hold for any name. ``tests/drivers/test_tidb.py`` runs them."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbops.engine.capacity.tidb_advice import SpreadOption, shard_bits, sharded_definition, ways_for
from dbops.engine.capacity.tidb_placement import skew_of, why_hot
from dbops.engine.errors import Refused
from dbops.engine.facts.tidb import StoreLeaders, TablePlacement
from dbops.engine.flavors import flavor_for
from dbops.engine.flavors.sql_text import sql_name
from dbops.engine.flavors.tidb import is_tidb, release_of, store_of

DEFINITION = (
    "CREATE TABLE `orders` (\n  `id` bigint NOT NULL AUTO_INCREMENT,\n  `note` varchar(9) COMMENT 'PRIMARY KEY (`id`)',\n"
    "  PRIMARY KEY (`id`) /*T![clustered_index] CLUSTERED */,\n  KEY `k` (`note`)\n"
    ") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 AUTO_INCREMENT=30001 COMMENT='x'"
)
ORDERS = TablePlacement(
    schema="shop",
    table="orders",
    sharding="NOT_SHARDED(PK_IS_HANDLE)",
    is_clustered=True,
    primary_key=("id",),
    first_key_type="bigint",
    counts_up=True,
    definition=DEFINITION,
)
LOOSE = replace(ORDERS, sharding="NOT_SHARDED", is_clustered=False, definition="")


def leaders(*regions: int, written: tuple[int, ...] = ()) -> tuple[StoreLeaders, ...]:
    bytes_of = written or (0,) * len(regions)
    return tuple(StoreLeaders(store, *parts) for store, parts in enumerate(zip(regions, bytes_of, strict=True), 1))


def way(table: TablePlacement, name: str, *, nodes: int = 12, release: str = "8.5.1") -> SpreadOption:
    return next(one for one in ways_for(table, tikv_nodes=nodes, release=release) if one.name == name)


@pytest.mark.parametrize(
    ("stores", "nodes", "expected"),
    [
        (leaders(1), 12, (1, 1.0, 12.0, False)),
        (leaders(4, 4, 4), 3, (1, pytest.approx(1 / 3), pytest.approx(1.0), False)),
        (leaders(2, 6), None, (2, 0.75, 1.5, False)),
        # leaders are even, and yet one takes all writes
        (leaders(5, 5, written=(0, 900)), 2, (2, 1.0, 2.0, True)),
        # more stores have leaders than nodes are listed
        (leaders(1, 1, 1, 1), 2, (1, 0.25, 1.0, False)),
    ],
)
def test_skew_compares_the_busiest_store_with_an_even_part(
    stores: tuple[StoreLeaders, ...], nodes: int | None, expected: tuple[object, ...]
) -> None:
    found = skew_of(stores, nodes)
    assert found
    assert (found.store, found.share, found.factor, found.by_bytes) == expected


@pytest.mark.parametrize(("stores", "nodes"), [(leaders(9), 1), (leaders(9), None), ((), 12), (leaders(0, 0), 2)])
def test_skew_of_one_store_or_of_no_region_is_none(stores: tuple[StoreLeaders, ...], nodes: int | None) -> None:
    assert skew_of(stores, nodes) is None


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 10**9)), min_size=1, max_size=20), st.integers(1, 40))
def test_skew_is_between_even_and_all_on_one(parts: list[tuple[int, int]], nodes: int) -> None:
    found = skew_of((StoreLeaders(store, *part) for store, part in enumerate(parts)), nodes)
    if found:
        assert 1 <= round(found.factor, 9) <= max(nodes, len(parts))


@pytest.mark.parametrize(
    ("table", "hot"),
    [
        (ORDERS, True),
        (LOOSE, True),
        (replace(ORDERS, counts_up=False), False),
        (replace(ORDERS, sharding="PK_AUTO_RANDOM_BITS=5"), False),
        (replace(LOOSE, sharding="SHARD_BITS=4"), False),
        (replace(ORDERS, partition_method="KEY"), False),
        (replace(ORDERS, partition_method="HASH"), False),
        (replace(ORDERS, partition_method="RANGE"), True),
    ],
)
def test_table_whose_rows_all_go_to_the_last_region_is_hot(table: TablePlacement, hot: bool) -> None:
    assert bool(why_hot(table)) is hot


def test_bits_give_each_node_a_shard() -> None:
    assert [shard_bits(nodes) for nodes in (1, 3, 4, 5, 12, 16, 17, 10**9)] == [2, 2, 2, 3, 4, 4, 5, 15]


def test_ways_are_for_the_number_of_nodes() -> None:
    assert "PARTITION BY KEY (`id`) PARTITIONS 12;" in way(ORDERS, "partitions").sql
    assert "SHARD_ROW_ID_BITS=4 PRE_SPLIT_REGIONS=4" in way(ORDERS, "shards").sql
    assert "AUTO_RANDOM(5)" in way(ORDERS, "random_ids").sql
    assert all("merge_option=deny" in one.sql for one in ways_for(ORDERS, tikv_nodes=12, release="8.5.1"))
    assert (way(ORDERS, "shards").is_in_place, way(LOOSE, "shards").is_in_place) == (False, True)


@pytest.mark.parametrize(
    ("release", "value"), [("8.5.1", "'table'"), ("8.4.0", "'table'"), ("8.3.0", "ON"), ("", "'table'")]
)
def test_scattering_is_said_in_the_words_of_the_release(release: str, value: str) -> None:
    assert f"tidb_scatter_region = {value};" in way(ORDERS, "shards", release=release).sql


@pytest.mark.parametrize(
    ("table", "name"),
    [
        (replace(ORDERS, unique_keys=(("note",),)), "partitions"),
        (replace(ORDERS, primary_key=()), "partitions"),
        (replace(ORDERS, partition_method="RANGE"), "partitions"),
        (replace(ORDERS, first_key_type="int"), "random_ids"),
        (replace(ORDERS, counts_up=False), "random_ids"),
        (replace(ORDERS, primary_key=("id", "u")), "random_ids"),
        (LOOSE, "random_ids"),
        (replace(LOOSE, sharding="SHARD_BITS=4"), "shards"),
        (replace(ORDERS, definition=""), "shards"),
        *(
            (replace(ORDERS, table=f"a{mark}b"), name)
            for name in ("partitions", "shards", "random_ids")
            for mark in "\n\x1b\u202e"
        ),
    ],
)
def test_impossible_way_has_a_reason_and_no_statement(table: TablePlacement, name: str) -> None:
    found = way(table, name)
    assert found.why_not
    assert (found.statements, found.undo) == ((), ())


def test_column_of_all_unique_keys_is_the_partitions_column() -> None:
    table = replace(ORDERS, primary_key=("id", "u"), unique_keys=(("u", "x"),))
    assert "KEY (`u`)" in way(table, "partitions").sql


def test_old_release_cannot_partition_in_place() -> None:
    assert way(ORDERS, "partitions", release="7.3.0").why_not
    assert way(ORDERS, "partitions", release="7.4.0").statements


NAMES = st.text(st.sampled_from("ab`'\";-%/*\\ é"), min_size=1, max_size=64)


@given(NAMES, NAMES, NAMES)
def test_hostile_names_stay_names(schema: str, table: str, column: str) -> None:
    found = replace(ORDERS, schema=schema, table=table, primary_key=(column,), definition="")
    for one in ways_for(found, tikv_nodes=3, release="8.5.1"):
        for statement in (*one.statements, *one.undo):
            # without the quoted names nothing of them is left
            bare = re.sub(r"`(?:[^`]|``)*`", "N", statement)
            assert re.fullmatch(r"[A-Za-z0-9 _.,:;()='-]*", bare), statement
            assert sql_name(table[:60]).rstrip("`") in statement or statement.startswith("SET SESSION")


def test_definition_is_rewritten_only_where_it_is_as_expected() -> None:
    found = sharded_definition(DEFINITION, "`shop`.`orders_new`", 4)
    assert found.startswith("CREATE TABLE `shop`.`orders_new` (\n")
    assert "PRIMARY KEY (`id`) /*T![clustered_index] NONCLUSTERED */,\n" in found
    assert "COMMENT 'PRIMARY KEY (`id`)'" in found
    assert found.endswith(
        ") ENGINE=InnoDB SHARD_ROW_ID_BITS=4 PRE_SPLIT_REGIONS=4 DEFAULT CHARSET=utf8mb4 AUTO_INCREMENT=30001 COMMENT='x'"
    )


@pytest.mark.parametrize(
    "definition",
    [
        "",
        DEFINITION.replace("CLUSTERED", "NONCLUSTERED"),
        DEFINITION.replace("ENGINE=InnoDB", "ENGINE=Other"),
        DEFINITION.replace("CREATE TABLE", "CREATE VIEW"),
        DEFINITION + "\nPARTITION BY KEY (`id`) PARTITIONS 3",
        DEFINITION.replace("'x'", "'\x1b'"),
        DEFINITION.replace("DEFAULT NULL", "").replace("COMMENT 'P", "GENERATED ALWAYS AS (1) COMMENT 'P"),
        DEFINITION.replace("KEY `k`", "CONSTRAINT `f` FOREIGN KEY"),
        # a comment with line breaks that looks like a second key
        DEFINITION.replace("'x'", "'\n  PRIMARY KEY (`x`) /*T![clustered_index] CLUSTERED */\n'"),
    ],
)
def test_unexpected_definition_is_left_to_a_person(definition: str) -> None:
    assert sharded_definition(definition, "`t`", 4) == ""


@pytest.mark.parametrize(
    ("version", "comment", "expected"),
    [
        ("8.0.11-TiDB-v8.5.1", "TiDB Server (Apache License 2.0)", True),
        ("5.7.25", "TiDB Server (Apache License 2.0) Community Edition", True),  # server-version is set
        ("8.0.11-TiDB-v8.5.1", "", True),
        ("8.0.46", "MySQL Community Server - GPL", False),
        ("10.11.19-MariaDB", "tested beside TiDB", False),
    ],
)
def test_tidb_is_recognized(version: str, comment: str, expected: bool) -> None:
    assert is_tidb(version, comment) is expected
    if expected:
        with pytest.raises(Refused) as caught:
            flavor_for(version, comment)
        assert caught.value.code == "flavor.tidb"


def test_own_version_and_store_are_read() -> None:
    text = "Release Version: v7.5.0\nEdition: Community\nStore: unistore"
    assert (release_of("5.7.25", text), release_of("8.0.11-TiDB-v8.5.1-x", text), release_of("5.7.25")) == (
        "7.5.0",
        "8.5.1",
        "",
    )
    assert (store_of(text), store_of("")) == ("unistore", "")
