"""An emulated API server in a process of its own: ``kube_site.py PODS NODES``; a number on its input changes so many.

Pods are as long as real ones: about 5 kB with what the server notes of who wrote which field.
"""

import sys

import kube_objects as make

from idlewatt.exporters.simulated.api_server import Api, ApiServer
from idlewatt.exporters.simulated.api_store import JOBS, NODES, PODS, Store

PODS_COUNT, NODES_COUNT = map(int, sys.argv[1:])
NOISE = [{"manager": "kubelet", "operation": "Update", "fieldsType": "FieldsV1", "subresource": "status",
          "fieldsV1": {f"f:field{number}": {"f:part": {}, ".": {}} for number in range(90)}}]


def pod(number: int, begun: int = 0) -> dict[str, object]:
    node = f"n{number % NODES_COUNT:04}" if number % 5 else ""
    made = make.pod(f"job-{number // 2}-{number % 2}", make.owner("Job", f"job-{number // 2}"), on=node, gpus=1,
                    created_s=make.START_S + begun)
    made["metadata"]["managedFields"] = NOISE
    return made


def main() -> None:
    store = Store()
    for number in range(NODES_COUNT):
        store.put(NODES, make.node(f"n{number:04}", labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}))
    for number in range(PODS_COUNT // 2):
        store.put(JOBS, make.job(f"job-{number}"))
    for number in range(PODS_COUNT):
        store.put(PODS, pod(number))
    server = ApiServer(Api(store, bookmark_s=0.1)).begin()
    print(server.url, flush=True)
    done = 0
    for line in sys.stdin:
        for _ in range(int(line)):
            done += 1
            store.put(PODS, pod(done % PODS_COUNT, done))
        print(store.version, flush=True)


main()
