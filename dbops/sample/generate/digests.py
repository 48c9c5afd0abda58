"""The sample's top statements: those of a shop, read on its primary."""

from datetime import datetime, timedelta

from dbops.engine.facts.instance import to_record
from dbops.engine.load_tests.digest_facts import Column, ColumnKind, Digest, SourceDigests, TableColumns
from dbops.models import DigestReading, Instance

_INT = 2**31 - 1
_TABLES = (
    TableColumns(
        "orders",
        (
            Column("id", ColumnKind.NUMBER, _INT, is_unique=True, is_counter=True),
            Column("customer_id", ColumnKind.NUMBER, _INT),
            Column("state", ColumnKind.BYTES, 12),
            Column("price", ColumnKind.NUMBER, 10**8),
            Column("at", ColumnKind.TEXT),
        ),
    ),
    TableColumns(
        "order_lines", (Column("order_id", ColumnKind.NUMBER, _INT), Column("price", ColumnKind.NUMBER, 10**8))
    ),
    TableColumns(
        "customers", (Column("id", ColumnKind.NUMBER, _INT, is_unique=True), Column("seen_at", ColumnKind.TEXT))
    ),
)
_COUNTS = {
    "SELECT * FROM `orders` WHERE `id` = ?": 918_204_113,
    "SELECT SUM ( `price` ) FROM `order_lines` WHERE `order_id` = ?": 402_118_930,
    "UPDATE `customers` SET `seen_at` = NOW ( ) WHERE `id` = ?": 88_310_772,
    "SELECT `id` , `state` FROM `orders` WHERE `customer_id` = ? AND `at` BETWEEN ? AND ? ORDER BY `at` DESC LIMIT ?": 61_902_440,
    "COMMIT": 58_713_021,
    "INSERT INTO `orders` ( `customer_id` , `state` , `price` , `at` ) VALUES (...)": 9_481_226,
    "SELECT `id` FROM `orders` WHERE `state` IN (...) AND `price` > ?": 2_730_115,
    "SELECT `SHA2` ( ? , ? ) = `token` FROM `customers` WHERE `id` = ?": 1_200_874,
}
#: What a load test of the sample sends.
SHOP = SourceDigests(
    "shop_0001",
    schemas=560,
    since="2026-08-30 02:11:40",
    total=1_551_000_000,
    digests=tuple(Digest(text, count) for text, count in _COUNTS.items()),
    tables=_TABLES,
)


def write_digest_readings(instances: dict[str, Instance], now: datetime) -> None:
    """Store one reading; its request is no part of the story."""
    at = now - timedelta(days=2.5)
    DigestReading.objects.create(
        instance=instances["shop-p1"],
        schema=SHOP.schema,
        requested_by="anna.keller",
        requested_at=at,
        claimed_at=at,
        finished_at=at + timedelta(seconds=1),
        status=DigestReading.Statuses.SUCCEEDED,
        result=to_record(SHOP),
    )
