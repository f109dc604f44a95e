"""What servers and their GPUs do, from the site's own dcgm-exporter and node_exporter: the paper's monitoring view.

DCGM 4.6 renamed its fields; whichever of both names is there answers. A server is a host whose name is that of a node
of the scheduler, with or without a domain behind it.
"""

from __future__ import annotations

from .dashboard import as_json
from .panels import Row, column, lines, listing, number, quiet

_CLUSTER, _NODE = 'cluster=~"$cluster"', "=~`(${node:regex})([.].*)?`"
GPU, HOST = f"{_CLUSTER}, Hostname{_NODE}", f"{_CLUSTER}, nodename{_NODE}"
UTIL = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO")
REMOTE = "nfs.*|ceph|fuse.ceph.*|lustre|beegfs.*|gpfs|glusterfs|fuse.glusterfs|9p|cifs"
NOT_STORED = "tmpfs|ramfs|squashfs|overlay|devtmpfs|autofs|fuse.lxcfs|rootfs|iso9660"
REASONS = {"power limit": 4, "slowdown": 8, "heat (software)": 32, "heat (hardware)": 64, "power brake": 128}
"""Bits of DCGM's reasons for low clocks; idle, settings and boost groups are no throttling."""
NO_DCGM = "no data: does this Prometheus scrape dcgm-exporter?"
NO_NODE = "no data: does this Prometheus scrape node_exporter?"
MOST = 16
"""Curves of a panel: the largest, as a browser draws no thousands."""


def build() -> str:
    """Return the dashboard's JSON."""
    return as_json("resources", "Resources", "What servers and their GPUs do, by the site's own dcgm-exporter and "
                   "node_exporter; what of it is waste is on the other dashboards.",
                   ((4, _figures()), "GPUs of the servers", (9, _gpu_work()), (9, _gpu_state()), (9, _gpu_clocks()),
                    "Hosts of the GPUs", (9, _hosts()), (9, _network()), (9, _storage()), (10, _table())),
                   shows=("node",), own=False)


def _gpus(*names: str) -> str:
    """Return a field of DCGM under any of its names, once for each GPU: jobs and pods repeat its rows."""
    query = " or ".join(f"{name}{{{GPU}}}" for name in names)
    return f'label_join(max by (cluster, Hostname, gpu) ({query}), "node", "", "Hostname")'


def _hosts_of(expression: str) -> str:
    """Return what node_exporter tells, by the name that the server calls itself."""
    names = f"max by (cluster, instance, nodename) (node_uname_info{{{HOST}}})"
    return f'label_join(({expression}) * on (cluster, instance) group_left (nodename) {names}, "node", "", "nodename")'


def _rate(metric: str, chosen: str = "") -> str:
    return f"sum by (cluster, instance) (rate({metric}{{{_CLUSTER}{chosen}}}[$__rate_interval]))"


def _memory() -> str:
    """Return the share of each GPU's memory that is taken: of one in parts each instance has a row of its own."""
    used, free = (f"sum by (cluster, Hostname, gpu) (max by (cluster, Hostname, gpu, GPU_I_ID) "
                  f"(DCGM_FI_DEV_FB_{what}{{{GPU}}}))" for what in ("USED", "FREE"))
    return f'label_join({used} / ({used} + {free}), "node", "", "Hostname")'


def _busy() -> str:
    idle = f'rate(node_cpu_seconds_total{{{_CLUSTER}, mode="idle"}}[$__rate_interval])'
    return _hosts_of(f"1 - avg by (cluster, instance) ({idle})")


def _host_memory() -> str:
    free, every = (f"max by (cluster, instance) (node_memory_{name}_bytes{{{_CLUSTER}}})"
                   for name in ("MemAvailable", "MemTotal"))
    return _hosts_of(f"1 - {free} / {every}")


def _of_gpus(expression: str) -> tuple[tuple[str, str], ...]:
    return ((f"topk({MOST}, {expression})", "{{node}} GPU {{gpu}}"),)


def _of_hosts(*pairs: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((f"topk({MOST}, {expression})", f"{{{{node}}}} {name}".rstrip()) for expression, name in pairs)


POWER = ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS", "DCGM_FI_DEV_POWER_USAGE_INSTANT",
         "DCGM_FI_DEV_BOARD_POWER_RAW_WATTS")
TEMPERATURE = ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS")
CLOCKS = ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS")


def _throttled(bit: int) -> str:
    return f"sum(floor({_gpus(*CLOCKS)} / {bit}) % 2)"


def _figures() -> Row:
    return (
        (4, number("GPUs that are measured", "GPUs of the chosen servers on dcgm-exporter's pages.",
                   f"count({_gpus(*TEMPERATURE)})", "locale", empty="no DCGM")),
        (4, number("Mean utilisation of GPUs", "Share of the time in which some kernel ran, by DCGM; it says little "
                   "of how much work that was.", f"avg({_gpus(*UTIL)}) / 100", "percentunit", empty="no DCGM")),
        (4, number("Mean memory use of GPUs", "Share of the GPUs' own memory that is taken.", f"avg({_memory()})",
                   "percentunit", empty="no DCGM")),
        (4, number("Power of the GPUs", "Of all chosen GPUs together, as they measure it themselves; hosts are not in "
                   "it.", f"sum({_gpus(*POWER)})", "watt", empty="no DCGM")),
        (4, number("Hottest GPU now", "The highest temperature of a chosen GPU's core.", f"max({_gpus(*TEMPERATURE)})",
                   "celsius", steps=((None, "text"), (85.0, "orange")), empty="no DCGM")),
        (4, number("Mean use of CPUs", "Share of the time in which the CPUs of the chosen servers were not idle.",
                   f"avg({_busy()})", "percentunit", empty="no host")))


def _gpu_work() -> Row:
    return (
        (12, lines("Utilisation of GPUs", f"Share of the time in which some kernel ran; the {MOST} busiest.",
                   _of_gpus(f"{_gpus(*UTIL)} / 100"), "percentunit", most=1.0, empty=NO_DCGM)),
        (12, lines("Memory use of GPUs", f"Share of a GPU's own memory that is taken; the {MOST} fullest.",
                   _of_gpus(_memory()), "percentunit", most=1.0, empty=NO_DCGM)))


def _gpu_state() -> Row:
    memory = ("DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS")
    return (
        (12, lines("Power of GPUs", f"As each GPU measures it; the {MOST} that draw most.", _of_gpus(_gpus(*POWER)),
                   "watt", empty=NO_DCGM)),
        (12, lines("Temperature of GPUs", f"Of the cores, and of the memory where reported; the {MOST} hottest.",
                   (*_of_gpus(_gpus(*TEMPERATURE)), (f"topk({MOST}, {_gpus(*memory)})",
                                                     "{{node}} GPU {{gpu}} memory")), "celsius", empty=NO_DCGM)))


def _gpu_clocks() -> Row:
    return (
        (12, lines("Clocks of GPUs", f"Frequency of the streaming multiprocessors; the {MOST} fastest.",
                   _of_gpus(f"{_gpus('DCGM_FI_DEV_SM_CLOCK')} * 1e6"), "hertz", empty=NO_DCGM)),
        (12, lines("GPUs that are throttled", "How many GPUs have their clocks held down, by DCGM's reason; its "
                   "counters file must name DCGM_FI_DEV_CLOCKS_EVENT_REASONS.",
                   tuple((_throttled(bit), name) for name, bit in REASONS.items()), "short", stacked=True,
                   empty="no data: is the field in dcgm-exporter's counters file?")))


def _hosts() -> Row:
    load = f"max by (cluster, instance) (node_load1{{{_CLUSTER}}})"
    return (
        (8, lines("CPUs of servers", f"Share of the time in which CPUs were not idle; the {MOST} busiest servers.",
                  _of_hosts((_busy(), "")), "percentunit", most=1.0, empty=NO_NODE)),
        (8, lines("Load of servers", f"Processes that run or wait, mean of a minute; the {MOST} highest.",
                  _of_hosts((_hosts_of(load), "")), "short", empty=NO_NODE)),
        (8, lines("Memory of servers", f"Share of the host's memory that is not available; the {MOST} fullest.",
                  _of_hosts((_host_memory(), "")), "percentunit", most=1.0, empty=NO_NODE)))


def _network() -> Row:
    cards = r', device!~"lo|veth.*|cali.*|docker.*|cni.*|flannel.*|br-.*|virbr.*"'
    net = [(_hosts_of(_rate(f"node_network_{way}_bytes_total", cards)), word)
           for way, word in (("receive", "in"), ("transmit", "out"))]
    fabric = [(_hosts_of(_rate(f"node_infiniband_port_data_{way}_bytes_total")), word)
              for way, word in (("received", "in"), ("transmitted", "out"))]
    faults = [(_hosts_of(_rate(f"node_network_{way}_{what}_total", cards)), f"{what} {word}")
              for way, word in (("receive", "in"), ("transmit", "out")) for what in ("errs", "drop")]
    return (
        (8, lines("Network of servers", "Bytes a second over all real interfaces, both ways.", _of_hosts(*net), "Bps",
                  empty=NO_NODE)),
        (8, lines("InfiniBand of servers", "Bytes a second over all InfiniBand and RoCE ports, both ways.",
                  _of_hosts(*fabric), "Bps", empty=quiet("no server has InfiniBand ports"))),
        (8, lines("Network faults of servers", "Packets a second that were damaged or dropped.", _of_hosts(*faults),
                  "short", empty=NO_NODE)))


def _storage() -> Row:
    disks = [(_hosts_of(_rate(f"node_disk_{way}_bytes_total", r', device!~"loop.*|ram.*|dm-.*|md.*|sr.*"')), word)
             for way, word in (("read", "read"), ("written", "written"))]
    nfs = _hosts_of(_rate("node_nfs_requests_total"))

    def full(chosen: str) -> str:
        free, size = (f"max by (cluster, instance, mountpoint) (node_filesystem_{what}_bytes{{{_CLUSTER}, {chosen}}})"
                      for what in ("avail", "size"))
        return f'topk({MOST}, {_hosts_of(f"1 - {free} / ({size} > 0)")})'

    return (
        (6, lines("Local disks of servers", "Bytes a second read from and written to the disks of a server.",
                  _of_hosts(*disks), "Bps", empty=NO_NODE)),
        (6, lines("Space of local file systems", f"Share that is taken; the {MOST} fullest.",
                  ((full(f'fstype!~"{REMOTE}|{NOT_STORED}"'), "{{node}} {{mountpoint}}"),), "percentunit", most=1.0,
                  empty=NO_NODE)),
        (6, lines("Space of NFS, Ceph and the like", "Share that is taken of file systems that servers share; the "
                  f"{MOST} fullest.", ((full(f'fstype=~"{REMOTE}"'), "{{node}} {{mountpoint}}"),), "percentunit",
                  most=1.0, empty=quiet("no server mounts any"))),
        (6, lines("NFS requests of servers", f"Calls a second to NFS servers; the {MOST} that ask most.",
                  _of_hosts((nfs, "")), "short", empty=quiet("no server mounts NFS"))))


def _table() -> Row:
    of = "by (cluster, node)"
    columns = {"GPU use": f"avg {of} ({_gpus(*UTIL)}) / 100", "GPU memory": f"avg {of} ({_memory()})",
               "GPU power": f"sum {of} ({_gpus(*POWER)})", "Hottest": f"max {of} ({_gpus(*TEMPERATURE)})",
               "CPUs": f"max {of} ({_busy()})", "Memory": f"max {of} ({_host_memory()})"}
    share = {name: column("percentunit") for name in ("GPU use", "GPU memory", "CPUs", "Memory")}
    return (
        (24, listing("Servers now", "All chosen servers side by side; a name leads to what the server wastes.",
                     tuple(columns.values()), {"cluster": "Cluster", "node": "Node"} | {
                         f"Value #{letter}": name for letter, name in zip("ABCDEF", columns, strict=True)},
                     special=share | {"GPU power": column("watt"), "Hottest": column("celsius")}, order="-GPU power",
                     empty=NO_DCGM)),)
