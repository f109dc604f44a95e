import json
import sqlite3
from contextlib import closing

import pytest
from click.testing import CliRunner

from idlewatt.daemon.cli import main


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path / 'idlewatt.db'}"


def db(*arguments):
    return CliRunner().invoke(main, ["db", *map(str, arguments)], env={"COLUMNS": "200"})


def test_upgrade_makes_a_database_that_the_others_understand(url):
    done = db("upgrade", "--url", url)
    assert (done.exit_code, done.stdout) == (0, "the schema is up to date\n")
    tables = {row["table"]: row["rows"] for row in json.loads(db("stats", "--url", url, "--format", "json").stdout)}
    assert tables["jobs"] == 0
    assert db("upgrade", "--url", url).exit_code == 0


def test_the_database_is_found_by_the_configuration(url, tmp_path):
    (tmp_path / "site.yml").write_text(f"storage: {{url: '{url}'}}\n")
    assert db("upgrade", "--config.file", tmp_path / "site.yml").exit_code == 0
    assert (tmp_path / "idlewatt.db").exists()


def test_stats_work_beside_a_running_daemon(rig):
    service = rig.service()
    service.jobs()
    done = db("stats", "--url", service.settings.storage.url)
    assert done.exit_code == 0
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("jobs ")]
    assert int(line.split()[1]) == len(service.known.snapshot.jobs)


@pytest.mark.parametrize("command", ["upgrade", "vacuum"])
def test_what_writes_is_refused_beside_a_running_daemon(rig, command):
    service = rig.service()
    done = db(command, "--url", service.settings.storage.url)
    assert done.exit_code == 3
    assert "another idlewatt daemon records into" in done.stderr


def test_vacuum_gives_space_back(url, tmp_path):
    db("upgrade", "--url", url)
    with closing(sqlite3.connect(tmp_path / "idlewatt.db")) as database, database:
        database.execute("CREATE TABLE ballast (words TEXT)")
        database.executemany("INSERT INTO ballast VALUES (?)", [("x" * 1000,)] * 1000)
        database.execute("DROP TABLE ballast")
    done = db("vacuum", "--url", url)
    assert done.exit_code == 0
    before, after = (int(word.replace(",", "")) for word in done.stdout.split() if word[0].isdigit())
    assert after < before - 900_000


def test_a_database_that_is_not_there_ends_with_3(url):
    done = db("stats", "--url", url)
    assert done.exit_code == 3
    assert "idlewatt.db" in done.stderr
    assert "Traceback" not in done.output


def test_a_file_that_is_no_database_ends_with_3(url, tmp_path):
    (tmp_path / "idlewatt.db").write_text("no database at all, but some words\n" * 100)
    for command in ("stats", "upgrade", "vacuum"):
        done = db(command, "--url", url)
        assert done.exit_code == 3
        assert "is not an SQLite database; check the path" in done.stderr


def test_a_newer_schema_ends_with_3(url, tmp_path):
    db("upgrade", "--url", url)
    with closing(sqlite3.connect(tmp_path / "idlewatt.db")) as database, database:
        database.execute("UPDATE alembic_version SET version_num = 'f00000000000'")
    for command in ("stats", "upgrade", "vacuum"):
        done = db(command, "--url", url)
        assert done.exit_code == 3
        assert "newer than this idlewatt" in done.stderr


@pytest.mark.parametrize("address", ["mysql://host/name", "sqlite://", "not a url://"])
def test_an_address_that_is_none_is_told_without_a_traceback(address):
    done = db("stats", "--url", address)
    assert done.exit_code == 2
    assert "Error:" in done.stderr


def test_a_wrong_configuration_ends_with_2(tmp_path):
    (tmp_path / "site.yml").write_text("colour: blue\n")
    done = db("stats", "--config.file", tmp_path / "site.yml")
    assert done.exit_code == 2
    assert "colour: unknown key" in done.stderr
