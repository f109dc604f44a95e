"""Sessions at BMCs: one for each, opened anew when it is forgotten, and ended when nobody reads there any more."""

import json
import time

import pytest
from mockup import chassis, empty
from test_redfish import Clock, source, watts

from idlewatt.exporters.redfish import RedfishConfig
from idlewatt.exporters.redfish.chassis import ChassisInUse
from idlewatt.exporters.redfish.client import Bmc
from idlewatt.exporters.redfish.config import _Known
from idlewatt.exporters.source import SourceError


def test_a_session_is_opened_once_opened_again_when_forgotten_and_ended(start, tmp_path):
    secret = tmp_path / "password"
    secret.write_text("calvin\n")
    bmc = start(chassis(empty(), "Self", "RackMount", control=500.0), login=("root", "calvin"))
    found = source(bmc, basic_auth={"username": "root", "password_file": str(secret)})
    for _ in range(3):
        assert found.read().nodes[0].power_watts == 500.0
    assert bmc.opened == 1
    bmc.tokens.clear()
    assert found.read().nodes[0].power_watts == 500.0
    assert bmc.opened == 2
    found.close()
    assert bmc.tokens == set()


@pytest.fixture
def discovered(start, tmp_path):
    """Return a source by file_sd that has read one BMC, that BMC, and a function that makes others the targets."""
    file, login = tmp_path / "bmcs.json", {"username": "root", "password": "calvin"}

    def now(*bmcs):
        file.write_text(json.dumps([{"targets": [bmc.address for bmc in bmcs], "labels": {"node": "dgx01"}}]))

    former = start(chassis(empty(), "Self", "RackMount", control=500.0), login=("root", "calvin"))
    now(former)
    found = RedfishConfig(scheme="http", refresh=1e-9, basic_auth=login,
                          file_sd_configs=[{"files": [str(file)]}]).build(Clock())
    found.read()
    assert len(former.tokens) == 1
    yield found, former, now
    found.close()


def test_the_session_of_a_bmc_that_is_no_target_any_more_is_ended_and_nothing_is_kept_of_it(start, discovered):
    found, former, now = discovered
    later = start(chassis(empty(), "Self", "RackMount", control=600.0), login=("root", "calvin"))
    now(later)
    assert [node.power_watts for node in found.read().nodes] == [600.0]
    assert (former.tokens, len(later.tokens), list(found._bmcs)) == (set(), 1, [f"http://{later.address}"])
    now(former)
    assert [node.power_watts for node in found.read().nodes] == [500.0]
    assert (former.opened, later.tokens) == (2, set())


def test_a_bmc_that_is_read_while_its_target_goes_is_forgotten_once_that_is_over(discovered):
    found, former, now = discovered
    now()
    (known,) = found._bmcs.values()
    with known.lock:
        found.read()
    assert (len(former.tokens), len(found._bmcs)) == (1, 1)
    found.read()
    assert (former.tokens, found._bmcs) == (set(), {})


def test_bmcs_that_are_no_targets_any_more_and_answer_nobody_hold_up_no_round(discovered, monkeypatch):
    found, former, now = discovered
    url, ended = next(iter(found._bmcs)), []
    for number in range(9):
        found._bmcs[f"{url}/{number}"] = _Known(Bmc(url, found._client, None), ChassisInUse(url))
    monkeypatch.setattr(Bmc, "close", lambda bmc, client: ended.append(time.sleep(0.3)))
    now()
    found.read()
    assert 0 < len(ended) < 5
    while found._bmcs:
        found.read()
    assert len(ended) == 10


def test_basic_auth_opens_no_session_and_a_wrong_password_is_told(start):
    bmc = start(chassis(empty(), "Self", "RackMount", control=500.0), login=("root", "calvin"))
    assert watts(bmc, auth="basic", basic_auth={"username": "root", "password": "calvin"}) == 500.0
    assert bmc.opened == 0
    with pytest.raises(SourceError, match="no session: HTTP 401"):
        watts(bmc, basic_auth={"username": "root", "password": "hobbes"})
