"""Two nightly trainings in one database: one at a time, and none waits for one that has died."""

import pytest
from sqlalchemy import text

from idlewatt.storage.errors import StoreLocked
from idlewatt.storage.history import History
from idlewatt.storage.ledger import _TRAINING_KEY, Ledger


def test_one_training_at_a_time_decides_beside_the_daemon_and_the_next_one_when_it_ends(history, url):
    with Ledger.open(url) as ledger, Ledger.open(url) as other:
        with ledger.training() as alone:
            alone()
            with pytest.raises(StoreLocked, match="another nightly training decides in"), other.training():
                pass
        with other.training():
            pass
    assert isinstance(history, History), "the daemon's own lock is another one"


@pytest.mark.parametrize("url", [pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True)
def test_the_lock_of_a_lost_session_is_free_and_its_holder_takes_it_again_or_learns_who_has_it(history, url):
    with Ledger.open(url) as ledger, Ledger.open(url) as other, ledger.training() as alone:
        end_its_session(other)
        alone()
        end_its_session(other)
        with other.training(), pytest.raises(StoreLocked):
            alone()


def end_its_session(ledger):
    """End the session that holds the lock, and wait until it is gone."""
    with ledger._writing() as connection:
        assert connection.execute(
            text("SELECT pg_terminate_backend(pid, 20000) FROM pg_locks WHERE locktype = 'advisory' AND objid = :key"),
            {"key": _TRAINING_KEY}).scalars().all() == [True]
