import ast
import dataclasses
import gzip
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from werkzeug.test import Client

from idlewatt.daemon.degraded import Degradation
from idlewatt.daemon.web.app import WebApp
from idlewatt.daemon.web.page import bars, part_of, percent, span, watts, within
from idlewatt.daemon.web.view import NodeRow, SourceRow, WasteRow
from idlewatt.exporters.metrics import Published
from idlewatt.storage.power_classes import WASTED, PowerClass
from idlewatt.storage.recommendations import Recommendation
from idlewatt.storage.records import Job, JobState, Node, Request

ROOT = Path(__file__).parents[3]
NASTY = '<script>alert(1)</script>"\'&{{7*7}}'


class Page(HTMLParser):
    """What of a page can be wrong: links, ids, elements that carry script or style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links, self.ids, self.tags, self.inline = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.tags.append(tag)
        self.links += [given[name] for name in ("href", "src") if name in given]
        self.ids += [given["id"]] if "id" in given else []
        self.inline += [name for name in given if name == "style" or name.startswith("on")]


def without_facts(view):
    view.waste_rows = view.node_rows = view.job_rows = view.advice = view.source_rows = ()
    view.facts = Published()


@pytest.mark.parametrize("path", ["/-/healthy", "/health", "/healthz"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_healthy_from_the_first_second_t8(view, path, method):
    without_facts(view)
    view.model_rows = ()
    view.lacking = ("configuration",)
    answer = Client(WebApp(view)).open(path, method=method)
    assert answer.status_code == 200
    assert (answer.data == b"") == (method == "HEAD")


def test_ready_when_nothing_is_missing_t9(client, view):
    view.lacking = ("first read of slurm", "database migration")
    answer = client.get("/-/ready")
    assert (answer.status_code, answer.text) == (
        503, "idlewatt is not ready: first read of slurm; database migration.\n")
    view.lacking = ()
    assert client.get("/-/ready").status_code == 200


def test_reload_is_off_unless_asked_for_t10(client, view):
    assert client.post("/-/reload").status_code == 403
    assert client.get("/-/reload").status_code == 405
    assert view.reloads == 0


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_reload_reloads_and_a_bad_configuration_keeps_the_old_t10(view, method):
    client = Client(WebApp(view, lifecycle=True))
    assert client.open("/-/reload", method=method).status_code == 200
    view.reload_fault = "sources.0.url: field required"
    answer = client.open("/-/reload", method=method)
    assert answer.status_code == 500
    assert "sources.0.url: field required" in answer.text
    assert view.reloads == 1


@pytest.mark.parametrize("headers", [
    {"Sec-Fetch-Site": "cross-site"},
    {"Origin": "http://evil.example", "Host": "localhost:9876"},
    {"Origin": "http://localhost:9877", "Host": "localhost:9876"},
    {"Origin": "http://rebound.example:9876", "Host": "rebound.example:9876"},
    {"Origin": "http://[::1", "Host": "localhost:9876"},
    {"Origin": "null", "Host": "localhost:9876"}])
def test_reload_is_not_taken_from_another_site(view, headers):
    client = Client(WebApp(view, lifecycle=True))
    assert client.post("/-/reload", headers=headers).status_code == 403
    assert view.reloads == 0


@pytest.mark.parametrize("headers", [
    {}, {"Host": "gpu-head.example"}, {"Origin": "http://localhost:9876", "Host": "localhost:9876"},
    {"Origin": "https://10.0.0.7:9876", "Host": "10.0.0.7:9876", "Sec-Fetch-Site": "same-origin"}])
def test_reload_is_taken_from_programs_and_from_our_own_page(view, headers):
    client = Client(WebApp(view, lifecycle=True))
    assert client.post("/-/reload", headers=headers).status_code == 200
    assert view.reloads == 1


def test_every_link_of_the_page_resolves_t11(client):
    links = Page(client.get("/").text).links
    assert {"metrics", "api/v1/waste", "static/style.css"} <= set(links)
    for link in links:
        assert not link.startswith(("http", "/")), "relative, so that it works behind a proxy's prefix"
        assert link == "#main" or client.get(f"/{link}").status_code == 200, link


def test_page_says_which_heuristics_are_no_candidates_and_why(client):
    (note,) = re.findall(r'<p class="note" id="unfit">(.*?)</p>', client.get("/").text)
    assert note == ("Not candidates to advise: sjf-limit+best-fit+easy (52% of the jobs have no time limit: "
                    "sjf-limit is first come, first served here).")


def test_page_is_a_persons_page(client):
    page = client.get("/").text
    parts = "at least 1.75 kW wasted, 302 W unused part of busy nodes"
    assert f"<title>at least 2.05 kW wasted or unused ({parts}), 720 W not measured – idlewatt</title>" in page
    assert "<strong>at least 2.05 kW wasted or unused</strong> of 6.79 kW at the wall, 720 W not measured</p>" in page
    assert f'<p class="note" id="unused">{parts}</p>' in page
    assert "Start now" in page
    assert "<code>dgx02</code> × 8" in page
    assert "expected in 2 h 10 min" in page
    assert "dgx02 is empty and the only node" in page
    assert "A shadow&#39;s view" not in page
    assert "connection refused: is ipmi_exporter running?" in page
    assert "http://dgx04:9400/metrics: timed out after 10 s" in page
    assert "1 GPU without fresh readings" in page
    assert "empty for 3 h, no pending job needs it" in page


def test_page_says_unknown_and_not_zero_where_nothing_is_measured(view, client):
    view.waste_rows = (WasteRow("a100", "dgx01", PowerClass.UNMEASURED, 4900.0, power_source="ipmi"),
                       *(WasteRow("a100", "dgx01", PowerClass.UNMEASURED, None, gpu=gpu) for gpu in range(8)))
    page = client.get("/").text
    assert "<title>waste unknown, 4.90 kW not measured – idlewatt</title>" in page
    assert "<strong>waste unknown</strong> in 4.90 kW at the wall, 4.90 kW not measured</p>" in page
    assert "0 W wasted" not in page


@pytest.mark.parametrize(("power", "unused", "said"), [
    (400.0, 300.0, ("300 W", "30 %")), (400.0, 0.0, ("0 W", "0 %")), (None, None, ())])
def test_the_table_tells_the_unused_part_of_busy_nodes_below_its_class(view, client, power, unused, said):
    view.waste_rows = (WasteRow("a100", "dgx01", PowerClass.HOST_ACTIVE, power, unused_power_watts=unused,
                                power_source="ipmi" if power else "gpus"),
                       WasteRow("a100", "dgx01", PowerClass.PRODUCTIVE, 600.0, gpu=0))
    page = client.get("/").text
    _, _, after = page.partition('<tr class="contained">')
    assert bool(after) == bool(said)
    assert all(f'<td class="number">{words}</td>' in after.partition("</tr>")[0] for words in said)
    assert ("Unused part of busy nodes <span" in after.partition("</tr>")[0]) == bool(said)
    assert ("unused part of 1 busy node not measured" in page) == (unused is None)


def test_page_says_what_is_wholly_known_without_a_doubt(view, client):
    view.waste_rows = (WasteRow("a100", "dgx01", PowerClass.NODE_OVERHEAD_EMPTY, 500.0, True, power_source="ipmi"),
                       WasteRow("a100", "dgx01", PowerClass.PRODUCTIVE, 500.0, gpu=0))
    page = client.get("/").text
    assert "<title>500 W wasted – idlewatt</title>" in page
    assert '<strong>500 W wasted</strong> of 1.00 kW at the wall <span class="share">(50 %)</span></p>' in page


def test_page_names_gpus_that_are_in_use_outside_the_scheduler_and_since_when(view, client):
    assert "outside-title" not in client.get("/").text
    since_s = view.now() - 7200
    view.waste_rows += (WasteRow("a100", "dgx02", PowerClass.OUTSIDE_SCHEDULER, 690.0, gpu=3, since_s=since_s),)
    assert "<code>dgx02</code> GPU 3: 690 W, for 2 h</li>" in client.get("/").text


def test_page_shows_racks_by_their_parts_and_the_domains_that_are_broken(view, client):
    rack = view.rack_rows[0]
    view.rack_rows = (rack, dataclasses.replace(rack, name="<rack8>", disagreement_watts=800.0, parts={
        "trays": 100_000.0, "switches": 0.0, "loss": 0.0, "unmeasured": 20_000.0}))
    view.node_rows = tuple(NodeRow(Node(f"tray{row}", ("p",), 4, gpus_allocated=held, domain=domain))
                           for row, (domain, held) in enumerate((("a", 4), ("a", 0), ("b", 0), ("c", 4))))
    text = client.get("/").text
    assert all(words in text for words in ("112.00 kW", "3.60 kW", "4.40 kW", "&lt;rack8&gt;",
                                           "trays exceed the meter by 800 W", "20.00 kW",
                                           "1 broken domain: 4 free GPUs that serve no job of a whole domain",
                                           "<code>a</code> broken – 4 of 8 GPUs on 2 nodes free"))
    assert text.index("<code>a</code>") < text.index("<code>b</code> free") < text.index("<code>c</code> full")
    racks = client.get("/api/v1/racks?enclosure=rack7").json["data"]
    assert [(row["name"], sum(row["parts"].values())) for row in racks] == [("rack7", 120_000.0)]


def test_page_claims_nothing_of_domains_while_the_scheduler_is_not_read(view, client):
    view.node_rows = (NodeRow(Node("tray0", ("p",), 4, domain="a")),)
    view.standing = dataclasses.replace(view.standing, degraded=(
        Degradation("scheduler_unread", "slurm", "Slurm not read since 14:02", view.now() - 7200),))
    text = client.get("/").text
    assert "Which NVLink domains are free is not known: Slurm not read since 14:02." in text
    assert "<code>a</code>" not in text


def test_page_of_a_site_without_racks_and_domains_says_nothing_of_them(client, view):
    view.rack_rows = ()
    assert 'id="racks"' not in client.get("/").text


def test_page_counts_the_nodes_whose_use_nobody_knows_and_does_not_list_them(view, client):
    unknown = dataclasses.replace(view.node_rows[0], unknown_use="nothing of it is measured")
    view.node_rows += (unknown, unknown, unknown)
    page = client.get("/").text
    assert "3 more nodes that no job needs are not listed: not measured, or busy outside the scheduler." in page
    view.node_rows = view.node_rows[:1] + view.node_rows[-1:]
    assert "1 node that no job needs is not listed" in client.get("/").text


def test_page_says_until_when_a_node_is_idle_and_what_powering_it_down_saves(view, client):
    told = "needs it; needed again in 1h 0m to over 2d 0h, until then it saves 1.6 kWh (0.7 to over 41.7), by 21 days"
    assert f"{told} of the past</li>" in client.get("/").text
    [row] = view.by_subject["power_down"]
    view.by_subject["power_down"] = (dataclasses.replace(
        row, needed_from_s=None, needed_mid_s=None, saved_joules=None, saved_mid_joules=None, days=0),)
    page = client.get("/").text
    assert "needs it; until when is not known, as too little of the past is recorded</li>" in page
    assert "kWh" not in page[page.index('id="spare"'):page.index('id="sources"')]


@pytest.mark.parametrize(("interval_s", "said"), [
    ((600.0, 1200.0), ", in nine of ten futures 10 min to 20 min"),
    ((-5.0, None), ", in nine of ten futures 0 s or more"), ((34_565.0, 34_615.0), ""), (None, "")])
def test_an_interval_whose_ends_read_alike_is_none(interval_s, said):
    advice = Recommendation("1", 0.0, "p", 0.0, "fifo", "", "hold", "", start_interval_s=interval_s)
    assert within(advice, 0.0) == said


def test_every_class_has_its_colour_on_the_page(client):
    css = client.get("/static/classes.css").text
    assert [row for row in PowerClass if f".{row} {{ --hue: {row.color}; fill: var(--hue); }}" not in css] == []
    assert client.get("/static/classes.css").headers["Content-Type"].startswith("text/css")


def test_page_tells_what_the_active_agent_expects_and_why(client):
    page = client.get("/").text
    assert "Advice by <strong>scorer@7</strong>, active since 1 d" in page
    assert "Expected to start 1 h 30 min sooner than without the advice (95 %: −2 h to +5 min)." in page
    assert "Because: predicted run time 10 min (queue 3.0 h): earlier." in page
    assert "fifo would say: start, dgx03, dgx04." in page


def test_page_names_the_gpus_and_what_the_placement_costs_beside_another(client):
    words = " ".join(client.get("/").text.split())
    assert "<code>dgx02</code> × 8 (0-7)" in words
    assert "Locality penalty 1.65; 1.6 on dgx03." in words
    assert "Expected to run 2.1 times as fast as on dgx01, dgx02, crosses two nodes." in words


def test_page_says_that_the_active_agent_abstains_and_why(client, view):
    silent = {"abstains": "its members <disagree>", "abstains_since_s": view.now() - 600}
    view.model_rows = (dataclasses.replace(view.model_rows[0], **silent), *view.model_rows[1:])
    page = client.get("/").text
    assert "<strong>scorer@7</strong> is active and abstains since 10 min: its members &lt;disagree&gt;." in page


def test_page_without_any_facts_says_what_is_missing(client, view):
    without_facts(view)
    view.lacking = ("first read of slurm",)
    page = client.get("/").text
    assert "Not ready yet: first read of slurm." in page
    assert "No power has been measured yet" in page
    assert "Nobody knows whether a job is waiting." in page
    assert "No source is configured." in page


def test_a_page_without_jobs_says_that_none_waits_only_where_the_scheduler_is_read(client, view):
    view.job_rows, view.advice = (), ()
    assert "No job is waiting." in client.get("/").text
    view.standing = dataclasses.replace(view.standing, no_advice="no advice: Slurm not read since 14:02")
    page = client.get("/").text
    assert "No job is waiting." not in page
    assert "Nobody knows whether a job is waiting." in page


def test_page_runs_under_its_own_strict_policy(client):
    answer = client.get("/")
    page = Page(answer.text)
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert page.inline == []
    assert len(page.ids) == len(set(page.ids))
    assert not re.search(r"<script[^>]*>[^<]", answer.text), "scripts are files"


def test_nothing_from_outside_is_rendered_unescaped_t14(client, view):
    view.job_rows = (Job(NASTY, 0.0, JobState.PENDING, NASTY, Request(1), NASTY, NASTY, NASTY, NASTY, NASTY),)
    view.advice = (Recommendation(NASTY, 0.0, NASTY, 0.0, NASTY, NASTY, "start", NASTY),)
    view.source_rows = (SourceRow(NASTY, NASTY, NASTY, False, None, NASTY),)
    view.waste_rows += (WasteRow(NASTY, NASTY, PowerClass.STRANDED, 1.0, True, 0),)
    view.lacking = (NASTY,)
    page = client.get("/").text
    assert "<script>alert" not in page
    assert "{{7*7}}" in page
    assert Page(page).tags.count("script") == 1


@pytest.mark.parametrize("path", ["/%0d%0aSet-Cookie:%20a=b", "/api/v1/jobs?user=%0d%0aX-Evil:1",
                                  "/api/v1/%0d%0aX-Evil:1"])
def test_no_header_can_be_injected_t14(client, path):
    headers = client.get(path).headers
    assert "X-Evil" not in headers
    assert "Set-Cookie" not in headers


def test_ten_thousand_pending_jobs_leave_a_page_for_a_person(client, view):
    view.job_rows = tuple(Job(str(n), 1.7e9, JobState.PENDING, "a100", Request(1)) for n in range(10_000))
    page = client.get("/").text
    assert page.count('class="card"') == 50
    assert "9950 more in" in page


def test_hundred_partitions_leave_a_page_for_a_person(client, view):
    view.waste_rows = tuple(WasteRow(f"p{n}", "n", PowerClass.STRANDED, 1.0 + n, True) for n in range(100))
    page = client.get("/").text
    assert page.count('class="name"') == 20
    assert "p99<" in page
    assert "80 less wasteful ones" in page


@pytest.mark.parametrize("path", ["/", "/metrics", "/api/v1/jobs"])
def test_head_is_answered_without_a_body(client, path):
    answer = client.head(path)
    assert (answer.status_code, answer.data) == (200, b"")


def test_metrics_path_is_the_operators_choice(view):
    client = Client(WebApp(view, telemetry_path="/probe/metrics"))
    assert client.get("/probe/metrics").status_code == 200
    assert client.get("/metrics").status_code == 404
    assert "probe/metrics" in Page(client.get("/").text).links


def test_metrics_are_open_metrics_by_accept_t4(client):
    accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"
    answer = client.get("/metrics", headers={"Accept": accept})
    assert answer.content_type.startswith("application/openmetrics-text")
    assert answer.data.endswith(b"# EOF\n")
    assert client.get("/metrics").content_type.startswith("text/plain; version=0.0.4")


def test_gzip_is_honoured_and_not_forced_t4(client):
    plain = client.get("/metrics")
    packed = client.get("/metrics", headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.headers["Vary"] == "Accept-Encoding"
    assert len(packed.data) == int(packed.headers["Content-Length"]) < len(plain.data)
    assert b"idlewatt_build_info" in gzip.decompress(packed.data)
    assert "Content-Encoding" not in client.get("/metrics", headers={"Accept-Encoding": "gzip;q=0"}).headers


def test_all_collectors_down_is_still_a_page_t7(client, view):
    view.facts = Published(up={"slurm": 0.0, "dcgm": 0.0})
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert 'idlewatt_up{collector="dcgm"} 0.0' in answer.text


def test_static_files_are_revalidated(client):
    tag = client.get("/static/style.css").headers["ETag"]
    assert client.get("/static/style.css", headers={"If-None-Match": tag}).status_code == 304


def test_bar_adds_up_and_starts_with_waste():
    rows = [WasteRow("p", "n", power_class, 10.0) for power_class in PowerClass]
    one = part_of(rows)
    assert one.watts == 10.0 * len(PowerClass)
    assert one.wasted_watts == 10.0 * len(WASTED)
    assert [slice.wasted for slice in one.slices] == [row.wasted for row in PowerClass]
    assert one.slices[-1].x + one.slices[-1].width == pytest.approx(1000, abs=0.1)
    assert part_of([]).balance.reported_share == 0.0


def test_bars_show_the_most_wasteful_partition_first():
    rows = [WasteRow("good", "n", PowerClass.PRODUCTIVE, 900.0), WasteRow("bad", "n", PowerClass.STRANDED, 1.0)]
    total, each = bars(rows)
    assert [one.name for one in each] == ["bad", "good"]
    assert (total, total.watts) == (part_of(rows), 901.0)


@pytest.mark.parametrize(("shown", "expected"), [
    (watts(None), "not measured"), (watts(999.4), "999 W"), (watts(1000), "1.00 kW"), (watts(2.5e6), "2.50 MW"),
    (percent(0.026), "2.6 %"), (percent(0.5), "50 %"), (percent(0.0), "0 %"),
    (span(59), "59 s"), (span(3600), "1 h"), (span(7800), "2 h 10 min"), (span(-3), "0 s"),
    (span(float("inf")), "115740 d 17 h")])
def test_units_are_a_persons(shown, expected):
    assert shown == expected


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG 2.1 between two colours."""
    def luminance(colour: str) -> float:
        parts = [int(colour[at:at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_text_has_aa_contrast_on_light_and_on_dark_ground(client):
    css = client.get("/static/style.css").text
    blocks = re.findall(r":root \{(.*?)\}", css, re.S)
    schemes = [dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block)) for block in blocks]
    assert len(schemes) == 2
    for scheme in schemes:
        for text in ("text", "soft", "link", "good", "warn", "bad"):
            for ground in ("ground", "card"):
                assert contrast(scheme[text], scheme[ground]) >= 4.5, (text, ground)


@pytest.mark.parametrize("folder", ["daemon", "exporters", "storage"])
def test_no_eval_and_no_pickle_on_outside_data_t14(folder):
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert name not in ("eval", "exec"), path
            assert not {"pickle", "marshal", "shelve"} & set(modules), path


def test_the_metrics_page_is_prepared_only_where_somebody_scrapes_and_a_fault_ends_nothing(view, caplog):
    asked, read = [], view.published
    view.published = lambda: asked.append(1) or read()
    app = WebApp(view)
    app.prepare()
    assert asked == []
    assert Client(app).get("/metrics").status_code == 200
    app.prepare()
    assert len(asked) == 2
    view.facts = Published(node_power_watts={"dgx01": 1.0})
    app.prepare()
    assert "the metrics page cannot be prepared" in caplog.text
