"""A BMC on UDP loopback that speaks real IPMI 2.0 and answers DCMI "Get Power Reading" and chassis status.

usage: fake_bmc.py ADDRESS PORT WATTS_FILE   (the file holds one number: the node's watts now)
"""

import struct
import sys
import time
from pathlib import Path

from pyghmi.ipmi import bmc

DEVICE_ID = [0x20, 1, 1, 0x66, 2, 0x80, 0x47, 0x16, 0, 0, 0]
POWER_ON = [0x21, 0, 0x40]


class Bmc(bmc.Bmc):
    def __init__(self, address: str, port: int, watts_file: Path) -> None:
        super().__init__({"admin": "password"}, port=port, address=address)
        self.watts_file = watts_file
        self.seen: list[int] = []

    def get_power_state(self) -> str:
        return "on"

    def power_reading(self) -> list[int]:
        self.seen.append(int(float(self.watts_file.read_text() or 0)) if self.watts_file.exists() else 0)
        del self.seen[:-1000]
        mean = sum(self.seen) // len(self.seen)
        return list(struct.pack("<BHHHHIIB", 0xDC, self.seen[-1], min(self.seen), max(self.seen), mean,
                                int(time.time()), 60_000, 0x40))

    def handle_raw_request(self, request, session):
        match request["netfn"], request["command"]:
            case (0x2C, 2):  # DCMI Get Power Reading
                answer = self.power_reading()
            case (0x06, 1):  # Get Device ID
                answer = DEVICE_ID
            case (0x06, 0x3B):  # Set Session Privilege Level
                answer = [request["data"][0] or 4]
            case (0x00, 1):  # Get Chassis Status
                answer = POWER_ON
            case _:
                return super().handle_raw_request(request, session)
        return session.send_ipmi_response(data=answer)


if __name__ == "__main__":
    Bmc(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])).listen()
