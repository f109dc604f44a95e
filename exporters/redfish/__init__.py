"""Wall power straight from BMCs by Redfish: one session and one request in flight for each.

Importing the folder registers the kind ``redfish``.
"""

from .config import RedfishConfig

__all__ = ["RedfishConfig"]
