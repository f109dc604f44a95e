"""``idlewatt grafana install``: writes dashboards, data source and rules to the places of Grafana and Prometheus."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import click

from ._written_files import write_files

PAGE = "http://localhost:9723"
"""Address of the daemon's page in the packaged dashboards."""
_PLACES = {
    "dashboards": "var/lib/grafana/dashboards/idlewatt",
    "provisioning/dashboards": "etc/grafana/provisioning/dashboards",
    "provisioning/datasources": "etc/grafana/provisioning/datasources",
    "rules": "etc/prometheus/rules/idlewatt",
}
"""Target folders by packaged folder."""
_RUNBOOKS = "https://github.com/idlewatt/idlewatt/blob/main/grafana/runbooks"
"""Address of the runbooks in the packaged rules."""
_KEPT = ("etc/grafana/provisioning/datasources/idlewatt.yaml",)
"""The operator's file: written once, never overwritten."""


@click.group("grafana", short_help="Set up dashboards, data source, rules and alerts.")
def command() -> None:
    """Show idlewatt in Grafana: dashboards, data source, recording rules and alerts."""


@command.command("install", short_help="Write dashboards, provisioning and rules.")
@click.option("--dir", "root", type=click.Path(file_okay=False, path_type=Path), default=Path("/"), show_default=True,
              help="Folder to write below instead, to look first or for packages.")
@click.option("--page", default=PAGE, show_default=True, help="Address of idlewatt's own page, for links to it.")
@click.option("--currency", default="USD", show_default=True,
              help="Currency of prices, as costs.currency has it: EUR, GBP, KRW, ...")
@click.option("--runbook-url", metavar="URL", default=_RUNBOOKS, show_default=True,
              help="Address of the folder of runbooks to which alerts link, such as one in your wiki.")
def install(root: Path, page: str, currency: str, runbook_url: str) -> None:
    """Write dashboards, provisioning and rules in the layout of Debian's and Grafana's own packages.

    Nothing is started or reloaded. Grafana finds new dashboards within a minute; Prometheus needs a reload and the
    rule_files line that is printed.

    \b
    Examples:
      idlewatt grafana install --dir /tmp/look
      sudo idlewatt grafana install
      sudo idlewatt grafana install --runbook-url https://wiki/idlewatt/runbooks
    """
    pages = all(re.fullmatch(r"https?://[^\s\"<>$\\]+", url) for url in (page, runbook_url))
    if not (pages and re.fullmatch("[A-Z]{3}", currency)):
        raise click.UsageError("a currency has three capital letters (EUR), a page begins with http:// or https://")
    texts: dict[str, str] = {}
    for place, text in _texts():
        text = text.replace('"currencyUSD"', f'"currency{currency}"').replace(
            'currency=\\"USD\\"', f'currency=\\"{currency}\\"').replace(PAGE, page.rstrip("/"))
        texts[place] = text.replace(f"runbook_url: {_RUNBOOKS}/", f"runbook_url: {runbook_url.rstrip('/')}/")
    write_files(root, texts, _KEPT)
    click.echo(f"\nFor prometheus.yml:\n  rule_files: [{Path('/', _PLACES['rules'])}/*.yml]\n"
               "For /etc/default/grafana-server:\n  IDLEWATT_PROMETHEUS_URL=http://localhost:9090")


def _texts() -> list[tuple[str, str]]:
    """Return the texts of the files, by their paths relative to the root."""
    ours = resources.files("idlewatt.grafana")
    return [(f"{place}/{file.name}", file.read_text("utf-8"))
            for folder, place in _PLACES.items()
            for file in sorted(ours.joinpath(folder).iterdir(), key=lambda file: file.name) if file.is_file()]
