"""``idlewatt reproduce`` as a shell would call it."""

from click.testing import CliRunner

from idlewatt.daemon.cli import main


def reproduce(name, *options, **settings):
    """Run the command to its end; settings become ``--set KEY=VALUE``."""
    changes = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    return CliRunner().invoke(main, ["reproduce", name, *map(str, options), *changes])
