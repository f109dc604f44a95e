"""A login that stands in an address is used, and shown to nobody: not in errors, health, names of nodes or the log."""

import logging

import pytest

from idlewatt.exporters.source import Watched, kinds

LOGIN, SECRET = "mon:s3cret@", "s3cret"
AT = {
    **dict.fromkeys(("prometheus", "throughput", "slurm_rest", "kubernetes", "kubernetes_topology"),
                    lambda server: {"url": f"http://{LOGIN}{server}"}),
    "grid": lambda server: {"url": f"http://{LOGIN}{server}", "price": "spot", "price_unit": "EUR/MWh"},
    **dict.fromkeys(("amd", "amd_smi", "cgroup", "dcgm", "gaudi", "node", "nvidia_smi"), lambda server: {
        "targets": [f"{LOGIN}{server}", f"http://{LOGIN}{server}/other"],
        "http_sd_configs": [{"url": f"http://{LOGIN}{server}/sd"}]}),
    **dict.fromkeys(("ipmi", "pdu"), lambda server: {
        "targets": ["bmc-01"], "exporter": f"http://{LOGIN}{server}", "static_configs": [
            {"targets": ["pdu-01"], "labels": {"enclosure": "rack-1"}}]}),
    "redfish": lambda server: {"targets": [f"http://{LOGIN}{server}"],
                               "basic_auth": {"username": "x", "password": "y"}},
}
"""Options of each kind of source with an address that has a login, by the server."""


def said(kind, server, clock, caplog):
    """Return all that people can read of a source whose server is at this address."""
    caplog.set_level(logging.DEBUG, "idlewatt")
    source = kinds()[kind].model_validate({"kind": kind} | AT[kind](server)).build(clock)
    watched = Watched(source, clock)
    watched.read()
    shown = (watched.status, watched.health(), caplog.text, [vars(record) for record in caplog.records])
    watched.close()
    return str(shown)


@pytest.mark.parametrize("kind", sorted(AT))
def test_no_login_is_shown_where_a_server_refuses(kind, clock, loopback, caplog):
    shown = said(kind, loopback.address, clock, caplog)
    assert "success=False" in shown
    assert SECRET not in shown


@pytest.mark.parametrize("server", ["127.0.0.1:9", "127.0.0.1:99999", "[::1", ""])
@pytest.mark.parametrize("kind", sorted(AT))
def test_no_login_is_shown_where_there_is_no_server(kind, server, clock, caplog):
    assert SECRET not in said(kind, server, clock, caplog)


@pytest.mark.parametrize("kind", ["prometheus", "throughput", "grid"])
def test_no_login_is_shown_where_an_answer_cannot_be_read(kind, clock, loopback, caplog):
    loopback.pages["/api/v1/query"] = b"no JSON"
    shown = said(kind, loopback.address, clock, caplog)
    assert f"http://{loopback.address}: " in shown
    assert SECRET not in shown


def test_a_slurmrestd_that_speaks_no_known_version_is_named_without_the_login(clock, loopback, caplog):
    shown = said("slurm_rest", loopback.address, clock, caplog)
    assert f"http://{loopback.address}: slurmrestd speaks none" in shown
    assert SECRET not in shown


def test_every_kind_with_an_address_is_tried_here():
    addressed = {kind for kind, config in kinds().items() if {"url", "targets"} & config.model_fields.keys()}
    assert addressed == set(AT)
