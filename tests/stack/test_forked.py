import os

from forked import Forked


def test_a_process_that_was_collected_before_its_status_is_told_may_still_be_killed(monkeypatch):
    ended = Forked(["--version"], os.environ)
    assert ended.wait(30) == 0
    ended.stderr.close()
    monkeypatch.setattr(Forked, "returncode", None)
    ended.kill()
