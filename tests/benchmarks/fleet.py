"""Prometheus' answers about a fleet of DGX nodes: ``python fleet.py PORT NODES`` serves the query API.

Every answer is made once; a Prometheus would spend its own CPU on them, on its own machine.
"""

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

GPUS = 8
NUMBERS = {"DCGM_FI_DEV_POWER_USAGE": "301.5", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": "81234567",
           "DCGM_FI_DEV_GPU_UTIL": "97", "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "0.93", "DCGM_FI_DEV_FB_USED": "30123",
           "DCGM_FI_DEV_FB_FREE": "10123", "DCGM_FI_DEV_FB_RESERVED": "512", "DCGM_FI_DEV_GPU_TEMP": "63"}
PER_NODE = {"ipmi_dcmi_power_consumption_watts": ("ipmi", "4321"), "node_memory_MemTotal_bytes": ("node", "1e12"),
            "node_memory_MemAvailable_bytes": ("node", "6e11")}


def answer(series):
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": [
        {"metric": labels, "value": [1e9, number]} for labels, number in series]}}, separators=(",", ":")).encode()


def of_gpus(nodes, name, number):
    return answer(({"__name__": name, "job": "dcgm", "instance": f"dgx-{node:04d}:9400", "node": f"dgx-{node:04d}",
                    "gpu": str(gpu), "UUID": f"GPU-{node:08x}-0000-4000-8000-{gpu:012x}", "device": f"nvidia{gpu}",
                    "modelName": "NVIDIA A100-SXM4-40GB", "Hostname": f"dgx-{node:04d}",
                    "DCGM_FI_DRIVER_VERSION": "535.129.03"}, number) for node in range(nodes) for gpu in range(GPUS))


def of_nodes(nodes, job, number):
    return answer(({"job": job, "instance": f"dgx-{node:04d}:9100", "node": f"dgx-{node:04d}"}, number)
                  for node in range(nodes))


class Api(BaseHTTPRequestHandler):
    answers: dict[str, bytes] = {}
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        query = parse_qs(urlsplit(self.path).query)["query"][0]
        name = "rate" if "rate(" in query else re.findall(r"\w+", query)[0]
        body = self.answers.get(name, self.answers["nothing"])
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main(port, nodes):
    Api.answers = {name: of_gpus(nodes, name, number) for name, number in NUMBERS.items()}
    Api.answers |= {name: of_nodes(nodes, job, number) for name, (job, number) in PER_NODE.items()}
    Api.answers |= {"rate": of_nodes(nodes, "node", "0.4"), "nothing": answer(())}
    server = ThreadingHTTPServer(("127.0.0.1", port), Api)
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
