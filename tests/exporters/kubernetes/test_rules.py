"""On which nodes rules let a pod be: labels that compare, other pods, spread; and what nobody can judge is unknown."""

import kube_objects as make
import pytest
from kube_objects import START_S

from idlewatt.exporters.kubernetes import KubernetesConfig
from idlewatt.exporters.simulated.api_store import NODES, PODS


@pytest.fixture
def read(server, store):
    sources = []

    def read():
        sources.append(KubernetesConfig(kind="kubernetes", url=server.url).build(lambda: START_S + 60.0))
        return sources[-1].read()

    yield read
    for source in sources:
        source.close()


@pytest.fixture
def nodes(store):
    for number, rack in enumerate("aabb"):
        store.put(NODES, make.node(f"n{number}", labels={"rack": rack, "speed": str(number)}))


@pytest.fixture
def request_of(store, read):
    """Return the function that puts a waiting pod, and returns what its job asks for."""
    def put(labels=None, copies=1, **spec):
        for number in range(copies):
            store.put(PODS, make.pod(f"waits-{number}", make.owner("Job", "waits"), labels=labels, **spec))
        return next(job.request for job in read().jobs if job.job_id == "team/waits")

    return put


def near(kind, key="rack", required=True, **selector):
    term = {"topologyKey": key, "labelSelector": selector}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]} if required else {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}}}


def test_labels_that_are_compared_as_numbers_rule_nodes_out(nodes, request_of):
    terms = [{"matchExpressions": [{"key": "speed", "operator": "Gt", "values": ["1"]}]}]
    asked = request_of(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": terms}}})
    assert asked.excluded_nodes == ("n0", "n1")


def by_name(operator, *names):
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]} for name in names]}


def by_label(key, operator, *values):
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}


@pytest.mark.parametrize(("terms", "required", "barred", "features"), [
    ([by_name("In", "n1")], ("n1",), (), ""),
    ([{**by_name("In", "n1"), **by_label("rack", "In", "a")}], ("n1",), (), "rack=a"),
    ([by_name("NotIn", "n1")], (), ("n1",), ""),
    ([by_name("NotIn", "n1", "n2")], (), ("n1", "n2"), ""),
    ([by_name("In", "n1"), by_name("In", "n2")], (), ("n0", "n3"), ""),
    ([by_name("NotIn", "n1"), by_label("rack", "In", "b")], (), ("n1",), ""),
    ([by_name("In", "n3"), by_label("rack", "In", "a")], (), ("n2",), ""),
    ([{**by_name("NotIn", "n1"), **by_label("rack", "In", "a")}], (), ("n1", "n2", "n3"), "rack=a"),
    ([by_label("speed", "Gt", "2"), by_label("rack", "In", "a")], (), ("n2",), ""),
    ([{}, by_label("rack", "In", "a")], (), (), "rack=a"),
    ([{}], (), ("n0", "n1", "n2", "n3"), ""),
], ids=str)
def test_names_of_nodes_that_are_alternatives_or_excluded_rule_the_others_out(
        nodes, request_of, terms, required, barred, features):
    asked = request_of(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": terms}}})
    assert (asked.required_nodes, asked.excluded_nodes, asked.features) == (required, barred, features)
    assert asked.details.unknown == ()


@pytest.mark.parametrize(("spec", "barred"), [
    (near("podAntiAffinity", matchLabels={"app": "db"}), ("n0", "n1")),
    (near("podAffinity", matchLabels={"app": "db"}), ("n2", "n3")),
    (near("podAffinity", matchExpressions=[{"key": "app", "operator": "In", "values": ["none"]}]),
     ("n0", "n1", "n2", "n3")),
    (near("podAntiAffinity", "kubernetes.io/hostname", matchLabels={"app": "db"}), ("n0",)),
    (near("podAntiAffinity", required=False, matchLabels={"app": "db"}), ()),
    ({"topologySpreadConstraints": [{"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
                                     "labelSelector": {"matchLabels": {"app": "db"}}}]}, ()),
], ids=["apart", "near", "near nobody", "apart by node", "preferred", "spread"])
def test_pods_beside_which_one_may_or_may_not_be_rule_nodes_out(nodes, store, request_of, spec, barred):
    store.put(PODS, make.pod("db", on="n0", labels={"app": "db"}))
    asked = request_of(**spec)
    assert asked.excluded_nodes == barred
    assert asked.details.unknown == ()


def test_pods_are_spread_within_their_skew(nodes, store, request_of):
    store.put(PODS, make.pod("db", on="n0", labels={"app": "db"}))
    asked = request_of(labels={"app": "db"}, topologySpreadConstraints=[
        {"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
         "labelSelector": {"matchLabels": {"app": "db"}}}])
    assert asked.excluded_nodes == ("n0", "n1")


def test_those_who_are_there_may_want_others_away(nodes, store, request_of):
    store.put(PODS, make.pod("alone", on="n3", **near("podAntiAffinity", matchLabels={"app": "loud"})))
    assert request_of(labels={"app": "loud"}).excluded_nodes == ("n2", "n3")
    assert request_of(labels={"app": "quiet"}).excluded_nodes == ()


def test_pods_that_want_nodes_of_their_own_each_get_one(nodes, request_of):
    asked = request_of(labels={"app": "x"}, copies=3,
                       **near("podAntiAffinity", "kubernetes.io/hostname", matchLabels={"app": "x"}))
    assert (asked.nodes, asked.gpus_per_node, asked.details.unknown) == (3, 1, ())


@pytest.mark.parametrize(("spec", "word"), [
    (near("podAffinity", matchLabels={"app": "x"}), "affinity of several"),
    ({"topologySpreadConstraints": [{"topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1,
                                     "labelSelector": {"matchLabels": {"app": "x"}}}]}, "topology spread of several"),
    ({"resourceClaims": [{"name": "gpu", "resourceClaimName": "gone"}]}, "a claim of devices"),
])
def test_what_cannot_be_judged_is_unknown(nodes, request_of, spec, word):
    [said] = request_of(labels={"app": "x"}, copies=2, **spec).details.unknown
    assert word in said


def test_slices_and_turns_are_asked_for_by_name_and_counted_on_nodes(store, read):
    store.put(NODES, make.node("mig", 0, {"nvidia.com/gpu.count": "1"}, **{"nvidia.com/mig-1g.5gb": "7"}))
    store.put(NODES, make.node("turns", 8, {"nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": "4"}))
    store.put(PODS, make.pod("holds", on="mig", containers=[make.container(2, resource="nvidia.com/mig-1g.5gb")]))
    store.put(PODS, make.pod("waits", containers=[make.container(3, resource="nvidia.com/mig-1g.5gb")]))
    store.put(PODS, make.pod("turn", gpus=1))
    snapshot = read()
    asked = {job.job_id: (job.request.gpus, job.request.details.slices) for job in snapshot.jobs}
    assert asked["team/waits"] == (0, (("nvidia.com/mig-1g.5gb", 3),))
    assert asked["team/turn"] == (0, (("nvidia.com/gpu", 1),))
    assert {node.name: node.slices for node in snapshot.nodes} == {
        "mig": (("nvidia.com/mig-1g.5gb", 7, 2),), "turns": (("nvidia.com/gpu", 8, 0),)}


def test_a_fraction_of_a_gpu_that_kai_gives_is_a_share_and_its_reservation_no_job(store, read):
    store.put(NODES, make.node("n1"))
    store.put(PODS, make.pod("shares", on="n1", gpus=0, annotations={"gpu-fraction": "0.5"},
                             labels={"runai-gpu-group": "g"}))
    store.put(PODS, make.pod("gpu-reservation-1", on="n1", namespace="kai-resource-reservation"))
    snapshot = read()
    [job] = snapshot.jobs
    assert (job.job_id, job.allocations[0].gpus, job.allocations[0].members) == ("team/shares", 0, ("team/shares",))
    assert snapshot.nodes[0].gpus_allocated == 1


def test_a_node_with_nothing_but_daemonsets_is_vacant(store, read):
    store.put(NODES, make.node("n1"))
    store.put(PODS, make.pod("agent", make.owner("DaemonSet", "agent"), on="n1", gpus=0))
    assert [(node.vacant, node.cpus_allocated) for node in read().nodes] == [(True, 8)]
    store.put(PODS, make.pod("web", on="n1", gpus=0))
    assert not read().nodes[0].vacant
