from datetime import datetime

import pytest

from idlewatt.daemon.moments import moment

NOON = datetime(2026, 11, 22, 12, 0)


@pytest.mark.parametrize(("then", "said"), [
    (datetime(2026, 11, 22, 9, 5), "09:05"), (datetime(2026, 11, 21, 23, 59), "21 Nov 23:59"),
    (datetime(2025, 12, 31, 8, 0), "2025-12-31 08:00")])
def test_a_moment_is_told_in_local_time_with_a_date_when_it_is_not_todays(then, said):
    assert moment(then.timestamp(), NOON.timestamp()) == said
