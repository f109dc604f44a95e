"""BMCs asked by Redfish: one chassis counts, four places tell its power, one request is in flight."""

import ssl
import threading

import pytest
import trustme
from mockup import chassis, empty, rack

from idlewatt.exporters.redfish import RedfishConfig
from idlewatt.exporters.source import SourceError
from idlewatt.storage.telemetry import EnclosureMeter, EnclosureReading


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def source(bmc, clock=None, labels=None, **options):
    given = {"scheme": "http", "refresh": 1e-9} | options
    labels = {"node": "dgx01"} if labels is None else labels
    targets = [{"targets": [bmc.address], "labels": labels}]
    return RedfishConfig(static_configs=targets, **given).build(clock or Clock())


def watts(bmc, **options):
    found = source(bmc, **options)
    try:
        (node,) = found.read().nodes
        assert (node.node, node.power_source) == ("dgx01", "redfish")
        return node.power_watts
    finally:
        found.close()


SUPPLIES = {"PS1": 1510.0, "PS2": 1490.5, "PS3": "absent"}


@pytest.mark.parametrize(("parts", "expected"), [
    ({"environment": {"Reading": 3001.0}, "supplies": SUPPLIES, "control": 2.0}, 3001.0),
    ({"environment": 3001.0}, 3001.0),
    ({"environment": {"Reading": None}, "supplies": SUPPLIES, "control": 2.0}, 3000.5),
    ({"supplies": SUPPLIES | {"PS2": None}, "control": 2990}, 2990.0),
    ({"supplies": SUPPLIES | {"PS2": False}, "control": 2990}, 2990.0),
    ({"supplies": {"PS1": 0, "PS2": 0.0}, "control": 2990}, 2990.0),
    ({"control": None, "average": 2950.0}, 2950.0),
    ({"control": 0, "sensor": 2940.0}, 2940.0),
    ({"environment": {"Reading": "a lot"}, "control": True, "sensor": 2930.0}, 2930.0),
    ({"environment": {"Reading": 3e6}, "sensor": 2920.0}, 2920.0)])
def test_the_first_place_that_tells_is_believed(start, parts, expected):
    assert watts(start(chassis(empty(), "Self", "RackMount", **parts))) == expected


@pytest.mark.parametrize(("supplies", "expected"), [
    (SUPPLIES, (3000.5, 3)), ({name: SUPPLIES[name] for name in ("PS1", "PS2")}, (3000.5, 2)),
    ({"PS1": 1500.0}, (1500.0, 1)), ({"PS1": 800.0, "PS2": 0}, (800.0, 2)), ({"PS1": 0.0, "PS2": 800.0}, (800.0, 2))])
def test_a_reading_says_of_how_many_supplies_it_is_the_sum_absent_ones_included(start, supplies, expected):
    """A supply that is listed as absent or stands by draws nothing; one that is no longer listed may draw anything."""
    found = source(start(chassis(empty(), "Self", "RackMount", supplies=supplies)))
    (node,) = found.read().nodes
    assert (node.power_watts, node.meters, node.meter) == (*expected, "PowerSupplies")
    found.close()


@pytest.mark.parametrize("how", ["no longer listed", "without power"])
def test_a_part_does_not_measure_the_server_when_its_chassis_falls_silent(start, how, caplog):
    tree = chassis(empty(), "Baseboard", "Module", environment=900.0)
    bmc, clock = start(chassis(tree, "Self", "RackMount", environment=3001.0)), Clock()
    found = source(bmc, clock)
    assert [node.power_watts for node in found.read().nodes] == [3001.0]
    bmc.tree["/Chassis/Self/EnvironmentMetrics"] = {}
    bmc.tree["/Chassis/Self"]["ChassisType"] = "Other"
    if how == "no longer listed":
        bmc.tree["/Chassis"]["Members"].pop()
    for _ in range(24):
        clock.now += 3599.0
        found.facts()
        with pytest.raises(SourceError, match="chassis Self measured the server and reports no power now; Baseboard"):
            found.read()
    clock.now += 7200.0
    assert [node.power_watts for node in found.read().nodes] == [900.0]
    assert f"chassis Self of {bmc.address} that is silent for a day is taken as removed" in caplog.text
    found.close()


def test_a_chassis_that_is_called_otherwise_now_measures_at_once(start):
    bmc, clock = start(chassis(empty(), "Self", "RackMount", environment=3001.0)), Clock()
    found = source(bmc, clock)
    found.read()
    bmc.tree = chassis(empty(), "Chassis_0", "RackMount", environment=3002.0)
    clock.now += 60.0
    assert [node.power_watts for node in found.read().nodes] == [3002.0]
    found.close()


def torn(collection, how):
    """Make a collection one that does not show all its members."""
    if how == "pages":
        collection["Members@odata.nextLink"] = f"{collection['Members'][0]['@odata.id']}?$skip=1"
    elif how == "count":
        collection["Members@odata.count"] += 1
    elif how == "link":
        collection["Members"][0] = {"@odata.id": "/elsewhere/1"}
    else:
        collection["Members"] += [{"@odata.id": f"/redfish/v1/More/{place}"} for place in range(64)]
        del collection["Members@odata.count"]


@pytest.mark.parametrize("how", ["pages", "count", "link", "many"])
def test_supplies_of_which_not_all_are_shown_are_not_added_up(start, how):
    tree = chassis(empty(), "Self", "RackMount", supplies=SUPPLIES, control=2990.0)
    torn(tree["/Chassis/Self/PowerSupplies"], how)
    assert watts(start(tree)) == 2990.0


@pytest.mark.parametrize("how", ["pages", "count", "link", "many"])
def test_a_rack_of_whose_shelves_not_all_are_shown_is_unmeasured(start, how):
    tree = rack({"1": 15_000.0, "2": 14_500.0}, {})
    torn(tree["/PowerEquipment/PowerShelves"], how)
    found = source(start(tree), labels={"enclosure": "rack7"})
    with pytest.raises(SourceError, match="PowerShelves does not show all its members: without them the sum"):
        found.read()
    found.close()


@pytest.mark.parametrize("state", ["Disabled", "UnavailableOffline", "Absent"])
def test_a_sensor_that_is_off_tells_nothing_though_it_still_shows_a_number(start, state):
    tree = chassis(empty(), "Self", "RackMount", sensor=2940.0)
    tree["/Chassis/Self/Sensors/TotalPower"]["Status"] = {"State": state}
    with pytest.raises(SourceError, match="no power at any chassis"):
        watts(start(tree))


def test_a_number_that_no_float_can_be_is_no_reading(start):
    tree = chassis(empty(), "Self", "RackMount", environment={"Reading": 10**400}, control=2990.0)
    assert watts(start(tree)) == 2990.0


def hgx():
    """Return what a server with an HGX baseboard shows: adding up all of it counts watts twice."""
    tree = chassis(empty(), "HGX_Baseboard_0", "Module", environment=5200.0, inside="System")
    chassis(tree, "HGX_GPU_SXM_1", "Component", environment=650.0, inside="HGX_Baseboard_0")
    return chassis(tree, "System", "RackMount", control=7100.0)


def test_of_several_chassis_the_whole_server_counts(start):
    assert watts(start(hgx())) == 7100.0
    assert watts(start(hgx()), chassis="HGX_Base*") == 5200.0


def test_two_servers_behind_one_bmc_must_be_named(start):
    twins = chassis(chassis(empty(), "A", "Sled", control=900.0), "B", "Sled", control=910.0)
    bmc = start(twins)
    with pytest.raises(SourceError, match=r"several chassis report power \(A, B\)"):
        watts(bmc)
    assert watts(bmc, chassis="B") == 910.0
    with pytest.raises(SourceError, match="no chassis fits 'C'; there are A, B"):
        watts(bmc, chassis="C")


def test_tls_is_verified_by_the_authority_that_is_given(start, tmp_path):
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    bmc = start(chassis(empty(), "Self", "RackMount", control=500.0), tls=context)
    assert watts(bmc, scheme="https", tls_config={"ca_file": str(tmp_path / "ca.pem")}) == 500.0
    with pytest.raises(SourceError, match="TLS fails"):
        watts(bmc, scheme="https")


def test_one_request_is_in_flight_and_a_bmc_that_hangs_is_asked_more_rarely(start):
    bmc = start(chassis(empty(), "Self", "RackMount", environment=700.0, supplies=SUPPLIES))
    found = source(bmc, timeout=0.3, connect_timeout=0.2)
    bmc.hold.clear()
    with pytest.raises(SourceError, match="did not end within|took too long"):
        found.read()
    asked = len(bmc.asked)
    with pytest.raises(SourceError):
        found.read()  # it is left alone now
    bmc.hold.set()
    assert bmc.most_in_flight == 1
    assert len(bmc.asked) <= asked + 1
    found.close()


def test_a_slow_bmc_holds_its_reader_no_longer_than_one_walk(start):
    """Each answer is within its own limit, and all together would hold a reader for as long as the BMC has links."""
    tree = empty()
    for number in range(100):
        chassis(tree, f"C{number}", "Module", inside="Self")
    bmc = start(chassis(tree, "Self", "RackMount", control=500.0), lag_s=0.02)
    found = source(bmc, walk=0.1, connect_timeout=60)
    with pytest.raises(SourceError, match=r"did not report its power in time \(walk\): /redfish/v1/Chassis/C"):
        found.read()
    asked = len(bmc.asked)
    assert asked < 20
    with pytest.raises(SourceError):
        found.read()  # it is left alone now
    assert len(bmc.asked) == asked
    found.close()


def test_a_bmc_is_left_alone_between_its_refreshes_and_its_reading_grows_older(start):
    clock = Clock()
    bmc = start(chassis(empty(), "Self", "RackMount", control=500.0))
    found = source(bmc, clock, refresh=3600.0)
    assert found.read().nodes[0].time_s == 1000.0
    asked = len(bmc.asked)
    clock.now = 1015.0
    assert found.read().nodes[0].time_s == 1000.0
    assert len(bmc.asked) == asked
    found.close()


def test_a_bmc_that_repeats_an_old_measurement_does_not_make_it_younger(start):
    clock = Clock()
    tree = chassis(empty(), "Self", "RackMount", environment={"Reading": 500.0, "ReadingTime": "2026-11-01T00:00:00Z"})
    found = source(start(tree), clock)
    times = []
    for now, minute in ((1000.0, 0), (1030.0, 0), (1060.0, 1)):
        clock.now = now
        tree["/Chassis/Self/EnvironmentMetrics"]["PowerWatts"]["ReadingTime"] = f"2026-11-01T00:0{minute}:00Z"
        times.append(found.read().nodes[0].time_s)
    assert times == [1000.0, 1000.0, 1060.0]
    found.close()


def test_a_rack_stays_with_its_pdus_while_its_shelves_tell_a_little_more(start):
    tree = rack({"1": 15_000.0, "2": 14_500.0}, {"A": 30_000.0})
    found = source(start(tree), labels={"enclosure": "rack7"})
    told = []
    for pdu in (30_000.0, 29_400.0, 30_100.0, 800.0):
        tree["/PowerEquipment/RackPDUs/A/Metrics"]["PowerWatts"]["Reading"] = pdu
        (one,) = found.read().enclosures
        told.append((one.power_watts, one.meters))
    assert told == [(30_000.0, 1), (29_400.0, 1), (30_100.0, 1), (29_500.0, 2)]
    found.close()


def test_a_shelf_that_repeats_an_old_measurement_does_not_make_its_rack_younger(start):
    clock = Clock()
    tree = rack({"1": 15_000.0, "2": 14_500.0}, {})
    found = source(start(tree), clock, labels={"enclosure": "rack7"})
    times = []
    for now, minutes in ((1000.0, (0, 0)), (1030.0, (1, 0)), (1060.0, (2, 1)), (1090.0, (2, 2))):
        clock.now = now
        for shelf, minute in zip("12", minutes, strict=True):
            told = tree[f"/PowerEquipment/PowerShelves/{shelf}/Metrics"]["PowerWatts"]
            told["ReadingTime"] = f"2026-11-01T00:0{minute}:00Z"
        times.append(found.read().enclosures[0].time_s)
    assert times == [1000.0, 1000.0, 1060.0, 1060.0]
    found.close()


@pytest.mark.parametrize(("shelves", "pdus", "watts", "meters"), [
    ({"1": 15_000.0, "2": 14_500.0}, {}, 29_500.0, 2), ({}, {"A": 800.0, "B": 0}, 800.0, 2),
    # One feeds the other: adding them up would count watts twice.
    ({"1": 15_000.0, "2": 14_500.0}, {"A": 31_000.0}, 31_000.0, 1), ({"1": 15_000.0}, {"A": 800.0}, 15_000.0, 1)])
def test_shelves_or_pdus_are_added_up_to_their_rack(start, shelves, pdus, watts, meters):
    bmc = start(rack(shelves, pdus))
    found = source(bmc, labels={"enclosure": "rack7"})
    told = found.read()
    assert told.enclosures == (EnclosureReading("rack7", 1000.0, watts, "redfish", meters, bmc.address),)
    assert told.meters == (EnclosureMeter("rack7", "redfish", bmc.address),)
    found.close()


def test_a_controller_without_shelves_and_pdus_is_none_of_a_rack(start):
    bare = source(start(chassis(empty(), "Self", "RackMount", control=1.0)), labels={"enclosure": "rack7"})
    with pytest.raises(SourceError, match="no power shelf and no PDU"):
        bare.read()
    assert len(bare.facts().meters) == 1, "it is asked all the same"
    bare.close()


@pytest.mark.parametrize("watts", [None, -1.0, "many", True])
def test_a_shelf_that_does_not_tell_its_power_leaves_the_rack_unmeasured(start, watts):
    tree = rack({"1": 15_000.0, "2": watts}, {})
    found = source(start(tree), labels={"enclosure": "rack7"})
    with pytest.raises(SourceError, match="2 does not report its power: without it the sum is not the rack's"):
        found.read()
    tree["/PowerEquipment/PowerShelves/2"]["Status"] = {"State": "Absent"}
    assert found.read().enclosures[0].power_watts == 15_000.0
    found.close()


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{\"Members\": 7}", b"\xff\xfe", b"[" * 100_000])
def test_answers_that_are_no_resources_are_faults_of_the_target(start, body):
    tree = empty()
    tree["/Chassis"] = body
    with pytest.raises(SourceError):
        watts(start(tree))


def test_links_out_of_redfish_are_not_followed(start):
    tree = empty()
    tree["/Chassis"] = {"Members": [{"@odata.id": "http://elsewhere/"}, {"@odata.id": "/redfish/v1/../secret"}, 5]}
    bmc = start(tree)
    with pytest.raises(SourceError, match="no chassis|no power"):
        watts(bmc)
    assert bmc.asked == ["", "/Chassis"]


def test_many_bmcs_are_asked_side_by_side(start):
    before = threading.active_count()  # threads of tests before, which may end meanwhile
    bmcs = [start(chassis(empty(), "Self", "RackMount", control=100.0 + number)) for number in range(5)]
    config = RedfishConfig(scheme="http", static_configs=[{"targets": [bmc.address], "labels": {"node": f"n{number}"}}
                                                          for number, bmc in enumerate(bmcs)])
    found = config.build(Clock())
    assert sorted(node.power_watts for node in found.read().nodes) == [100.0, 101.0, 102.0, 103.0, 104.0]
    found.close()
    assert threading.active_count() - before < 45
