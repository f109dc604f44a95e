"""Entry point of ``python -m idlewatt.daemon.cli``, the same as the console script."""

from . import main

main()
