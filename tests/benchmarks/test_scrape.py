"""Scraping a thousand DGX servers costs less CPU than a real Prometheus spends on the same pages."""

import statistics
import time

from idlewatt.exporters.dcgm import DcgmConfig
from idlewatt.exporters.ipmi import IpmiConfig
from idlewatt.exporters.node import NodeConfig

CONFIGS = (DcgmConfig, NodeConfig, IpmiConfig)


def cpu_of_round(sources, nodes: int) -> float:
    before = time.process_time()
    gpus, hosts, watts = (source.read() for source in sources)
    spent = time.process_time() - before
    assert len(gpus.gpus) == 8 * nodes
    assert len(hosts.nodes) == len(watts.nodes) == nodes
    return spent


def test_a_round_over_a_thousand_servers_costs_less_than_prometheus_spends(farm, prometheus, capsys):
    theirs = prometheus.cpu_per_round()
    prometheus.pause()
    sources = [config(static_configs=farm.labelled(kind)).build(time.time) for kind, config in enumerate(CONFIGS)]
    first, *rounds = [cpu_of_round(sources, farm.nodes) for _ in range(6)]
    ours = statistics.median(rounds)
    for source in sources:
        source.close()
    with capsys.disabled():
        print(f"\nscrape of {farm.nodes} nodes: {ours:.2f} CPU-s (the first {first:.2f}), Prometheus {theirs:.2f}, "
              f"ratio {ours / theirs:.2f} (bound 1.00)")
    assert ours <= theirs
