"""What a busy source does to its own backup: the redo log overwritten, schemas changed."""

import time

from tests.e2e.host_state import one
from tests.faults.injectors import hosts
from tests.faults.matrix import Expected, Fault, register
from tests.faults.scene import PRIMARY, SOURCE, Scene

MEBIBYTE = 1024**2
#: not below innodb_log_buffer_size
SMALL_REDO_BYTES = 16 * MEBIBYTE


@register
class RedoOverwritten(Fault):
    """A small redo log, a stream that is held, and three times as many bytes of redo as there is room for."""

    name = "redo-overwritten"
    title = "the source's redo log is overwritten while the stream is slow"
    steps = ("stream",)
    brake = 0.0
    patience_seconds = 240.0
    before = 0

    def prepare(self, scene: Scene) -> None:
        row = one(scene.stack, SOURCE, "SELECT @@innodb_log_file_size AS n")
        self.before = int(row["n"])
        one(
            scene.stack,
            PRIMARY,
            "CREATE TABLE IF NOT EXISTS sbtest.redo (id INT PRIMARY KEY AUTO_INCREMENT, text LONGTEXT)",
        )

    def inject(self, scene: Scene) -> None:
        hosts.wait_for_backup(scene.source, scene.uid, after_bytes=65536)
        one(scene.stack, SOURCE, f"SET GLOBAL innodb_log_file_size = {SMALL_REDO_BYTES}")
        began = self.written(scene)
        deadline = time.monotonic() + 90
        while self.written(scene) - began < 4 * SMALL_REDO_BYTES:
            assert time.monotonic() < deadline, "the source does not write so much"
            one(scene.stack, PRIMARY, f"INSERT INTO sbtest.redo (text) VALUES (REPEAT('x', {4 * MEBIBYTE}))")

    def written(self, scene: Scene) -> int:
        return int(one(scene.stack, SOURCE, "SHOW GLOBAL STATUS LIKE 'Innodb_os_log_written'")["Value"])

    def tidy(self, scene: Scene) -> None:
        if self.before:
            one(scene.stack, SOURCE, f"SET GLOBAL innodb_log_file_size = {self.before}")
            one(scene.stack, PRIMARY, "DROP TABLE IF EXISTS sbtest.redo")

    def expect(self, scene: Scene) -> Expected:
        return Expected(("failed",), ("backup.redo_overrun", "backup.redo_stuck"))


@register
class SchemaChanged(Fault):
    """MariaDB's tool follows schema changes: the copy must be true to every row all the same."""

    name = "schema-changed"
    title = "tables are altered, truncated, renamed, made and dropped while the source is read"
    steps = ("stream",)
    brake = 0.03  # a busy machine takes its time for the changes: the copy must not end before them

    STATEMENTS = (
        "CREATE TABLE sbtest.ddl_new (id INT PRIMARY KEY, note VARCHAR(40))",
        "INSERT INTO sbtest.ddl_new SELECT id, LEFT(c, 40) FROM sbtest.sbtest1 LIMIT 5000",
        "ALTER TABLE sbtest.ddl_new ADD INDEX (note)",
        "CREATE TABLE sbtest.ddl_copy LIKE sbtest.ddl_new",
        "INSERT INTO sbtest.ddl_copy SELECT * FROM sbtest.ddl_new",
        "RENAME TABLE sbtest.ddl_copy TO sbtest.ddl_renamed",
        "TRUNCATE TABLE sbtest.ddl_new",
        "ALTER TABLE sbtest.ddl_renamed ENGINE = InnoDB, ALGORITHM = COPY",
        "ALTER TABLE sbtest.ddl_renamed ADD COLUMN more INT NOT NULL DEFAULT 7, ALGORITHM = INSTANT",
        "INSERT INTO sbtest.ddl_new VALUES (1, 'after')",
        "DROP TABLE sbtest.ddl_new",
        "ALTER TABLE sbtest.sbtest2 ADD COLUMN ddl INT NOT NULL DEFAULT 3, ALGORITHM = COPY",
    )
    TIDY = (
        "DROP TABLE IF EXISTS sbtest.ddl_new, sbtest.ddl_copy, sbtest.ddl_renamed",
        "ALTER TABLE sbtest.sbtest2 DROP COLUMN IF EXISTS ddl",
    )

    def prepare(self, scene: Scene) -> None:
        self.run(scene, self.TIDY)

    def inject(self, scene: Scene) -> None:
        hosts.wait_for_backup(scene.source, scene.uid)
        self.run(scene, self.STATEMENTS)
        goal = one(scene.stack, PRIMARY, "SELECT @@gtid_binlog_pos AS gtid")["gtid"]
        reached = one(scene.stack, SOURCE, f"SELECT MASTER_GTID_WAIT('{goal}', 60) AS reached")["reached"]
        assert reached == 0, "the changes did not reach the source while it was read"
        assert hosts.backup_process(scene.source, scene.uid), "the backup had ended before"

    def run(self, scene: Scene, statements: tuple[str, ...]) -> None:
        for statement in statements:
            one(scene.stack, PRIMARY, statement)

    def tidy(self, scene: Scene) -> None:
        self.run(scene, self.TIDY)

    def expect(self, scene: Scene) -> Expected:
        return Expected(("succeeded",))
