"""Published results rebuilt, a folder per paper: nothing here serves a site, and the daemon runs without it.

The folder of a paper has ``setting.py`` (how much is trained and tried: ``FULL`` and ``QUICK``) and ``run.py``, whose
``run(setting, out, traces)`` writes the report and returns the paths of what it wrote. To add one, name it here.
"""

PAPERS = ("agents", "dl2", "gist", "maifs", "published", "scorer", "topdrl", "value")
