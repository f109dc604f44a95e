"""A thousand DGX servers on loopback: dcgm, node and ipmi pages by one asyncio process.

Run as ``python farm.py PORT NODES NODE_PAGE [HUNG]``. Every exporter has its own address, 127.x.y.1 to 127.x.y.3, so
that clients keep one connection for each as they do in reality; values change from scrape to scrape, series do not.
Nodes that the file HUNG names (a JSON list of numbers, read again at SIGHUP) take connections and never answer; the
pages of the others never change then.
"""

import asyncio
import json
import random
import signal
import sys
from pathlib import Path

GAUGES = """SM_CLOCK MEM_CLOCK MEMORY_TEMP GPU_TEMP POWER_USAGE TOTAL_ENERGY_CONSUMPTION PCIE_REPLAY_COUNTER GPU_UTIL
    MEM_COPY_UTIL ENC_UTIL DEC_UTIL XID_ERRORS FB_FREE FB_USED FB_RESERVED NVLINK_BANDWIDTH_TOTAL
    VGPU_LICENSE_STATUS UNCORRECTABLE_REMAPPED_ROWS CORRECTABLE_REMAPPED_ROWS ROW_REMAP_FAILURE""".split()  # noqa: SIM905
PROFILED = "GR_ENGINE_ACTIVE PIPE_TENSOR_ACTIVE DRAM_ACTIVE PCIE_TX_BYTES PCIE_RX_BYTES".split()  # noqa: SIM905
METRICS = [f"DCGM_FI_DEV_{name}" for name in GAUGES] + [f"DCGM_FI_PROF_{name}" for name in PROFILED]
NODE_LINES = 1500
VARIANTS = 4


def dcgm_page(node: int, seed: int) -> bytes:
    rng = random.Random(node * 31 + seed)
    lines = []
    for metric in METRICS:
        lines += [f"# HELP {metric} A field of DCGM.", f"# TYPE {metric} gauge"]
        for gpu in range(8):
            value = f"{rng.random():.6f}" if "PROF" in metric else str(rng.randrange(400))
            lines.append(f'{metric}{{gpu="{gpu}",UUID="GPU-{node:08x}-0000-4000-8000-{gpu:012x}",pci_bus_id='
                         f'"00000000:{gpu:02x}:00.0",device="nvidia{gpu}",modelName="NVIDIA A100-SXM4-40GB",'
                         f'Hostname="dgx-{node:04d}",DCGM_FI_DRIVER_VERSION="535.129.03",hpc_job="{node}"}} {value}')
    return ("\n".join(lines) + "\n").encode()


def node_page(recorded: str, seed: int) -> bytes:
    """Return a recorded page, stretched by more CPUs to the wanted number of lines, with values of its own."""
    rng = random.Random(seed)
    cpus = [line for line in recorded.splitlines() if line.startswith('node_cpu_seconds_total{cpu="0"')]
    others = [line for line in recorded.splitlines() if not line.startswith("node_cpu_seconds_total{")]
    more = (NODE_LINES - len(others)) // len(cpus)
    lines = []
    for line in others:
        lines.append(line)
        if line.startswith("# TYPE node_cpu_seconds_total"):
            lines += [f'{text.replace(chr(34) + "0" + chr(34), f"{chr(34)}{cpu}{chr(34)}").rpartition(" ")[0]} '
                      f"{seed * 1e4 + rng.random() * 1e3:.2f}" for cpu in range(more) for text in cpus]
    return ("\n".join(lines) + "\n").encode()


def ipmi_page(node: int, seed: int) -> bytes:
    supplies = "".join(f'ipmi_power_watts{{id="{id}",name="PS{id} Input Power"}} {300 + seed}\n' for id in range(6))
    wall = f"ipmi_dcmi_power_consumption_watts {2000 + node % 100 + seed}\n"
    return f'ipmi_up{{collector="dcmi"}} 1\n{wall}{supplies}'.encode()


def answer(page: bytes) -> bytes:
    return (b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: "
            + str(len(page)).encode() + b"\r\n\r\n" + page)


def address(node: int, kind: int) -> str:
    return f"127.{1 + node // 200}.{1 + node % 200}.{1 + kind}"


class Farm:
    def __init__(self, nodes: int, recorded: str, hung: Path | None = None) -> None:
        self._hung_file, self.hung = hung, frozenset()
        common = [answer(node_page(recorded, seed)) for seed in range(VARIANTS)]
        self.pages = {}
        for node in range(nodes):
            self.pages[address(node, 0)] = [answer(dcgm_page(node, seed)) for seed in range(VARIANTS // 2)]
            self.pages[address(node, 1)] = common
            self.pages[address(node, 2)] = [answer(ipmi_page(node, seed)) for seed in range(VARIANTS)]
        if hung:
            self.pages = {place: pages[:1] for place, pages in self.pages.items()}
            self.draw(nodes)

    def draw(self, nodes: int) -> None:
        """Read again which nodes hang; nobody hears from them, whoever is connected already neither."""
        numbers = set(json.loads(self._hung_file.read_text()))
        self.hung = frozenset(address(node, kind) for node in range(nodes) if node in numbers for kind in range(3))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        place, count = writer.get_extra_info("sockname")[0], 0
        pages = self.pages[place]
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                if place in self.hung:
                    await reader.read()  # until the client gives up
                    break
                writer.write(pages[count % len(pages)])
                await writer.drain()
                count += 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def main(port: int, nodes: int, recorded: str, hung: Path | None = None) -> None:
    farm = Farm(nodes, recorded, hung)
    if hung:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, farm.draw, nodes)
    server = await asyncio.start_server(farm.serve, "0.0.0.0", port, backlog=4096)
    print("ready", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]).read_text(), *map(Path, sys.argv[4:5])))
