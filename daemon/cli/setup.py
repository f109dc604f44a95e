"""``idlewatt setup``: writes a configuration of the sources that it finds on this site."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ._output import plain, told_once
from ._progress import waiting
from ._renamed import Renamed

if TYPE_CHECKING:
    from ..discovery import DiscoveredSite

WITHIN_S = 120.0
"""Time to wait for the scheduler and then the exporters, at most a minute each, s."""


class Port(click.ParamType):  # type: ignore[type-arg]
    """An exporter and its port, such as ``dcgm=9401``, as an option."""

    name = "port"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Return the exporter and its port."""
        from ..discovery import EXPORTERS

        kind, _, port = str(value).partition("=")
        if kind not in EXPORTERS:
            self.fail(f"{kind!r} is none of {', '.join(EXPORTERS)}", param, ctx)
        if not port.isdecimal() or not 0 < int(port) < 1 << 16:
            self.fail(f"{port!r} is not a port", param, ctx)
        return kind, int(port)


@click.command("setup", short_help="Find the site's sources and write a configuration.")
@click.option("--cluster-name", "cluster", cls=Renamed, former=("--cluster",), default="", metavar="NAME",
              help="Name of the cluster, for people to read.")
@click.option("--nodelist", "hostlist", cls=Renamed, former=("--nodes",), metavar="HOSTLIST",
              help="Servers, such as dgx-a100-[01-02],login1; by default those that Slurm knows.")
@click.option("--slurm-rest", "rest", multiple=True, metavar="URL",
              help="Address of slurmrestd, if it is not a usual one.")
@click.option("--prometheus", "prometheus_url", metavar="URL",
              help="A Prometheus that scrapes the exporters; it is read instead of them.")
@click.option("--exporter-port", "ports", cls=Renamed, former=("--port",), type=Port(), multiple=True,
              metavar="KIND=PORT",
              help="Port of an exporter, where it is not the usual one: dcgm=9401.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path),
              help="File to write, which must not exist yet or be the untouched sample. Standard output by default.")
def command(cluster: str, hostlist: str | None, rest: tuple[str, ...], prometheus_url: str | None,
            ports: tuple[tuple[str, int], ...], output: Path | None) -> None:
    """Find Slurm, Prometheus and the exporters of the servers, and write a configuration that reads them.

    What was not found is listed on standard error and in comments of the file. Exit with 1 if nothing was found.
    `idlewatt check-config --probe FILE` reads everything once more.

    \b
    Examples:
      idlewatt setup --cluster-name dgx --output config.yml
      idlewatt setup --nodelist 'dgx-a100-[01-02]' --exporter-port dcgm=9401
      idlewatt setup --prometheus http://prometheus:9090
    """
    if output is not None and output.exists() and not _untouched(output):
        raise click.UsageError(f"{output} exists and is left alone; name another file")
    with told_once(), waiting("looking for sources", WITHIN_S, "at most"):
        site = _found(hostlist, rest, prometheus_url, ports)
    for line in site.missing:
        click.echo(f"not found: {plain(line)}", err=True)
    if not site.sources:
        raise click.ClickException("nothing was found, so there is nothing to configure")
    _write(_text(cluster, site), output)


def _found(hostlist: str | None, rest: tuple[str, ...], prometheus_url: str | None,
           ports: tuple[tuple[str, int], ...]) -> DiscoveredSite:
    from .. import discovery

    scheduler = discovery.scheduler(rest or discovery.SLURM_REST)
    nodes = _expanded(hostlist) if hostlist else scheduler.nodes
    if prometheus_url:
        return scheduler.and_with(discovery.prometheus(prometheus_url))
    if nodes:
        return scheduler.and_with(discovery.exporters(nodes, dict(ports)))
    unknown = "exporters: no server is known; name some with --nodelist"
    return scheduler.and_with(discovery.DiscoveredSite(missing=[unknown]))


def _expanded(hostlist: str) -> tuple[str, ...]:
    from ...exporters.hostlist import expand

    try:
        return expand(hostlist)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--nodelist") from error


def _text(cluster: str, site: DiscoveredSite) -> str:
    """Return the configuration; every other key has the default that `check-config --sample` explains."""
    import yaml

    from .. import config

    body = yaml.safe_dump({"cluster": cluster, "sources": site.sources}, sort_keys=False, allow_unicode=True)
    missing = "".join(f"#   {plain(line)}\n" for line in site.missing)
    text = ("# Made by `idlewatt setup`; `idlewatt check-config --sample` explains every key.\n"
            + (f"# Looked for in vain:\n{missing}" if missing else "") + body)
    config.parse(text)
    return text


def _untouched(path: Path) -> bool:
    """Return whether a file is the unchanged sample that packages install."""
    from .. import config

    try:
        return path.read_text("utf-8") == config.sample()
    except (OSError, UnicodeDecodeError):
        return False


def _write(text: str, output: Path | None) -> None:
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with output.open("w" if _untouched(output) else "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {error.strerror}") from error
    click.echo(f"written  {output}; now: idlewatt check-config --probe {output}", err=True)
