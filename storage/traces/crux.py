"""Job sizes of Alibaba Lingjun (Cao et al., SIGCOMM'24, "Crux") as RFold keeps them."""

from __future__ import annotations

from .formats import register
from .table import TableFormat, number, text

register(TableFormat("crux", {
    "id": text("job id"), "submit_s": number("arrival time (sec)"), "gpus": number("size"),
    "run_s": number("duration (sec)"), "partition": text("topology"),
}))
