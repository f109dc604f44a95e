"""Slurm as a source: slurmrestd or Slurm's commands are called, their answers parsed, and put together as one snapshot.

Importing the folder registers both kinds, ``slurm_rest`` and ``slurm_cli``.
"""

from .cli import SlurmCliConfig
from .rest import SlurmRestConfig

__all__ = ["SlurmCliConfig", "SlurmRestConfig"]
