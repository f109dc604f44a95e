"""``python -m idlewatt.daemon.cli`` does what the console script does."""

from . import main

main()
