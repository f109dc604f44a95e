"""The simulators of published results, rewritten event by event, independent of our engine.

Each file reproduces one artifact to its digits, with its quirks, which are marked as such. To add one, write a file
with ``rows(traces)`` and name it in ``setting.py``.
"""
