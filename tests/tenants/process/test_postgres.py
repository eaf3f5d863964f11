"""The same in PostgreSQL, where there is one on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.ports import free_port
from holdfast.tenants.process.engine.storing import insert_calls
from holdfast.tenants.process.store.database import open_database
from holdfast.tenants.process.store.schema import create_tables
from tests.tenants.process.rig import Platform
from tests.tenants.process.test_http import Site
from tests.tenants.process.test_platform import (
    test_access_that_is_taken_back_ends_at_once_and_can_come_back as access,
)
from tests.tenants.process.test_platform import (
    test_an_offset_said_twice_counts_once as twice,
)
from tests.tenants.process.test_platform import (
    test_streams_are_added_changed_and_removed_while_updates_flow as change,
)
from tests.tenants.process.test_platform import (
    test_the_members_of_a_query_follow as members,
)
from tests.tenants.process.test_retention import (
    test_by_number_by_age_and_by_quota as keep,
)
from tests.tenants.process.test_windows import (
    test_a_window_begins_anew_when_it_is_another_and_only_then as begin_anew,
)
from tests.tenants.process.test_windows import (
    test_groups_have_windows_of_their_own as groups,
)


def _programs() -> Path | None:
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).parent
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    programs = _programs()
    if programs is None or not (programs / "initdb").exists():
        pytest.skip("PostgreSQL is not installed: sudo apt-get install postgresql")
    folder = tmp_path_factory.mktemp("postgres")
    for each in (folder, *folder.parents):
        if str(each).startswith("/tmp/pytest"):
            each.chmod(0o755)
    # PostgreSQL refuses to run as root.
    user = "postgres" if os.geteuid() == 0 else None
    if user is not None:
        shutil.chown(folder, user)
    port = free_port()
    data = folder / "data"

    def run(*command: str) -> None:
        subprocess.run(command, user=user, check=True, capture_output=True, cwd=folder)

    run(str(programs / "initdb"), "-D", str(data), "-A", "trust", "-U", "holdfast")
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    run(
        str(programs / "pg_ctl"),
        "-D",
        str(data),
        "-w",
        "-o",
        options,
        "-l",
        str(folder / "said"),
        "start",
    )
    try:
        yield f"postgresql://holdfast@127.0.0.1:{port}/postgres"
    finally:
        run(str(programs / "pg_ctl"), "-D", str(data), "-m", "immediate", "stop")


@pytest.fixture
def empty(postgres: str) -> str:
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return postgres


@pytest.mark.parametrize("check", [change, members, access, twice, begin_anew, groups])
def test_as_in_sqlite(empty: str, check) -> None:
    platform = Platform(empty)
    try:
        check(platform)
    finally:
        platform.database.close()


def test_old_updates_go_as_in_sqlite(empty: str, tmp_path: Path) -> None:
    site = Site(tmp_path, empty)
    try:
        keep(site)
    finally:
        site.service.database.close()


def test_calls_that_come_at_once_are_all_noted(empty: str) -> None:
    """By the engine, by hand and by actions that set off others: an id is taken once."""
    database = open_database(empty)
    create_tables(database)

    def note(tenant: int) -> None:
        for at in range(60):
            with database.transaction() as work:
                insert_calls(work, [(f"t{tenant}/o/a", f"call@{at}", "{}")])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(note, range(4)))
    assert database.rows("SELECT count(*) FROM calls") == [(240,)]
    database.close()
