"""The simulators behind published results, rewritten event by event: named modes, apart from our engine.

Each file follows one artifact to its digits, quirks included; what is such a quirk says so. To add one, write a file
with ``rows(traces)`` and name it in ``setting.py``.
"""
