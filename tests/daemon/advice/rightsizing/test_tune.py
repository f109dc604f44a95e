"""Who gets what of a node: only what is there, only from those who do not use it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.advice.rightsizing.sensitivity import NodeShare, Speed, SpeedEstimate
from idlewatt.daemon.advice.rightsizing.tune import Gift, Tenant, TunedNode, by_pair, tune

MEMORY = 100


def tenant(name, has, *, least=None, best=None, gpus=2, gives=True, takes=True, memory=(MEMORY, MEMORY, MEMORY)):
    """Return a job that is faster by the CPU up to ``best``."""
    held, left, wanted = memory

    def by_cpus(cpus):
        times = min(cpus, best or has) / has if cpus > has else 1.0
        return Speed(times, 1.0, times)

    def by_memory(amount):
        times = min(amount, wanted) / held if amount > held else 1.0
        return Speed(times, 1.0, times)

    known = SpeedEstimate("measured", NodeShare(has, held), NodeShare(has if least is None else least, left),
                    NodeShare(best or has, wanted), by_cpus, by_memory)
    return Tenant((name, 0.0), gpus, known, gives, takes)


def node(*tenants, free=(0, 0), free_gpus=0, fair=(8, 100)):
    return TunedNode(NodeShare(*free), free_gpus, NodeShare(*fair), tenants)


def key(name):
    return name, 0.0


def test_a_starved_job_gets_what_its_neighbour_does_not_use():
    plan = tune(node(tenant("123", 40, least=16), tenant("124", 24, best=96)))
    assert plan.gifts == [Gift(key("123"), key("124"), NodeShare(24, 0))]
    assert plan.parts == {key("123"): NodeShare(16, MEMORY), key("124"): NodeShare(48, MEMORY)}


def test_it_gets_no_more_than_is_of_use_to_it_and_nobody_gets_what_is_of_none():
    plan = tune(node(tenant("a", 40, least=16), tenant("b", 24, best=30), tenant("c", 8)))
    assert plan.parts[key("b")].cpus == 30
    assert plan.parts[key("a")].cpus == 34
    assert plan.parts[key("c")].cpus == 8


def test_what_was_not_measured_is_not_taken():
    assert tune(node(tenant("a", 40, least=16, gives=False), tenant("b", 24, best=96))).gifts == []


def test_a_job_on_several_nodes_is_given_nothing():
    assert tune(node(tenant("a", 40, least=16), tenant("b", 24, best=96, takes=False))).gifts == []


def test_what_nobody_holds_goes_first_but_for_the_share_of_free_gpus():
    plan = tune(node(tenant("a", 40, least=30), tenant("b", 16, best=64), free=(20, 0), free_gpus=1))
    assert plan.gifts == [Gift(None, key("b"), NodeShare(12, 0)), Gift(key("a"), key("b"), NodeShare(10, 0))]


def test_the_job_that_gains_most_by_the_cpu_comes_first():
    plan = tune(node(tenant("a", 40, least=20), tenant("slow", 40, best=60, gpus=1), tenant("fast", 10, best=30)))
    assert plan.parts[key("fast")].cpus == 30
    assert plan.parts[key("slow")].cpus == 40


def test_a_job_that_waits_starts_on_what_others_do_not_use():
    waits = tenant("new", 20, least=13)
    plan = tune(node(tenant("a", 40, least=26), tenant("b", 8, best=80), free=(0, 200), free_gpus=2), [waits])
    assert plan.parts == {key("a"): NodeShare(26, MEMORY), key("b"): NodeShare(8, MEMORY),
                          key("new"): NodeShare(14, MEMORY)}


def test_it_starts_with_what_it_asked_for_where_there_is_so_much_and_running_jobs_get_the_rest():
    plan = tune(node(tenant("a", 40, least=10, memory=(300, 100, 300)), tenant("b", 8, best=80), free_gpus=2),
                [tenant("new", 20, least=13)])
    assert plan.parts[key("new")] == NodeShare(20, MEMORY)
    assert by_pair(plan.gifts) == {(key("a"), key("new")): NodeShare(20, MEMORY), (key("a"), key("b")): NodeShare(10,
                                                                                                                  0)}


@pytest.mark.parametrize("waits", [tenant("new", 20, least=15), tenant("new", 4, gpus=3),
                                   tenant("new", 8, memory=(500, 400, 500))])
def test_it_does_not_start_where_cpus_gpus_or_memory_do_not_suffice(waits):
    plan = tune(node(tenant("a", 40, least=26, memory=(300, 0, 300)), free_gpus=2), [waits])
    assert plan.gifts == []
    assert waits.key not in plan.parts


def test_what_fits_into_what_is_free_is_the_policys_business():
    plan = tune(node(tenant("a", 40, least=26), free=(64, 1000), free_gpus=4), [tenant("new", 20)])
    assert plan.gifts == []


def test_of_two_that_wait_the_first_goes_first_and_the_second_where_room_is_left():
    plan = tune(node(tenant("a", 60, least=10, memory=(900, 0, 900)), free_gpus=4),
                [tenant("first", 40, gpus=2), tenant("second", 20, least=10, gpus=2), tenant("third", 1, gpus=2)])
    assert plan.parts[key("first")].cpus == 40
    assert plan.parts[key("second")].cpus == 10
    assert key("third") not in plan.parts


def test_two_that_trade_cores_for_memory():
    plan = tune(node(tenant("123", 48, least=24, memory=(100, 100, 200)),
                     tenant("124", 24, best=48, memory=(300, 100, 300))))
    assert plan.parts == {key("123"): NodeShare(24, 200), key("124"): NodeShare(48, 200)}


shares = st.integers(0, 128)


@st.composite
def tenants(draw, name):
    has, memory = draw(shares), draw(shares)
    return tenant(name, max(has, 1), least=min(draw(shares), max(has, 1)), best=max(has, 1) + draw(shares),
                  gpus=draw(st.integers(0, 8)), gives=draw(st.booleans()), takes=draw(st.booleans()),
                  memory=(max(memory, 1), min(draw(shares), max(memory, 1)), max(memory, 1) + draw(shares)))


@st.composite
def towns(draw):
    here = [draw(tenants(f"r{number}")) for number in range(draw(st.integers(0, 5)))]
    waiting = [draw(tenants(f"w{number}")) for number in range(draw(st.integers(0, 4)))]
    free = draw(shares), draw(shares)
    return node(*here, free=free, free_gpus=draw(st.integers(0, 8)), fair=(draw(shares), draw(shares))), waiting


@given(towns())
@settings(max_examples=200, deadline=None)
def test_nothing_is_taken_that_is_used_nothing_is_given_twice_and_nothing_is_negative(node_view):
    here, waiting = node_view
    plan = tune(here, waiting)
    estimates = {one.key: one for one in (*here.tenants, *waiting)}
    for resource in (0, 1):
        total = here.free[resource] + sum(one.speed_estimate.has[resource] for one in here.tenants)
        assert sum(part[resource] for part in plan.parts.values()) <= total
        for who, part in plan.parts.items():
            assert part[resource] >= estimates[who].speed_estimate.least[resource] >= 0
            if who in {one.key for one in here.tenants} and not estimates[who].gives:
                assert part[resource] >= estimates[who].speed_estimate.has[resource]
        for who, one in estimates.items():
            given_ = sum(gift.part[resource] for gift in plan.gifts if gift.giver == who)
            taken = sum(gift.part[resource] for gift in plan.gifts if gift.taker == who)
            held = one.speed_estimate.has[resource] if one in here.tenants else 0
            if who in plan.parts:
                assert plan.parts[who][resource] == held - given_ + taken
    assert all(gift.part.cpus >= 0 and gift.part.memory_bytes >= 0 and any(gift.part) for gift in plan.gifts)
    assert sum(estimates[who].gpus for who in plan.parts if who[0].startswith("w")) <= here.free_gpus
