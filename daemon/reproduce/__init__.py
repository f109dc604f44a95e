"""Reproductions of published results, a folder for each paper; the daemon does not use this package.

The folder of a paper has ``setting.py`` (the amount of work: ``FULL`` and ``QUICK``) and ``run.py``, whose
``run(setting, out, traces)`` writes the report and returns the paths of its files. To add a paper, name it here.
"""

PAPERS = ("agents", "dl2", "gist", "maifs", "published", "scorer", "topdrl", "value")
