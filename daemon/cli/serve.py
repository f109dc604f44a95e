"""``idlewatt serve``: the daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


@click.command("serve", short_help="Run the daemon.")
@click.option("--config.file", "config_file", type=click.Path(path_type=Path), default="/etc/idlewatt/config.yml",
              show_default=True,
              help="Configuration of the daemon; `idlewatt check-config --sample` prints a documented one.")
@click.option("--web.listen-address", "addresses", multiple=True, default=["127.0.0.1:9723"], show_default=True,
              help="host:port to listen on; give it again for more. Beyond loopback use --web.config.file too.")
@click.option("--web.config.file", "web_config", type=click.Path(path_type=Path),
              help="TLS, client certificates and users, in the format of Prometheus' exporter toolkit.")
@click.option("--web.telemetry-path", "telemetry_path", default="/metrics", show_default=True,
              help="Path of the metrics.")
@click.option("--web.enable-lifecycle", "lifecycle", is_flag=True, help="Allow reloads by POST /-/reload.")
@click.option("--web.systemd-socket", "systemd_socket", is_flag=True,
              help="Take the sockets that systemd hands over instead of listening.")
@click.option("--log.level", "level", type=click.Choice(["debug", "info", "warning", "error"]), default="info",
              show_default=True, help="Lowest severity to log.")
@click.option("--log.format", "style", type=click.Choice(["logfmt", "json"]), default="logfmt", show_default=True,
              help="Format of log lines.")
@click.option("--clock.speed", "speed", type=click.FloatRange(min=0, min_open=True), default=1.0, hidden=True,
              help="Watch a simulated cluster whose time runs so many times as fast.")
@click.option("--clock.start", "start_s", type=float, hidden=True, help="Wall time at which both clocks were equal.")
def command(level: str, style: str, **options: Any) -> None:
    """Watch the cluster, record its jobs, and publish wasted watts and advice.

    \b
    SIGHUP or POST /-/reload reads the configuration again. Exit codes: 0 stopped as asked, 1 the database or an
    address cannot be used, 2 the configuration is wrong.

    \b
    Examples:
      idlewatt serve --config.file=/etc/idlewatt/config.yml
      idlewatt serve --config.file=site.yml --web.listen-address=[::]:9723 --web.config.file=web.yml
    """
    from .. import main
    from ..config import ConfigError
    from ..logs import configure

    configure(level, "json" if style == "json" else "logfmt")
    try:
        main.serve(main.Options(**options))
    except ConfigError as error:
        click.echo(str(error), err=True)
        raise click.exceptions.Exit(2) from error
    except main.CannotServe as error:
        raise click.ClickException(str(error)) from error
