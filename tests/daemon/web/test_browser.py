"""The page in a real browser, driven over Chromium's own protocol on two pipes."""

import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from idlewatt.daemon.web.app import WebApp
from idlewatt.daemon.web.view import WasteRow
from idlewatt.storage.power_classes import PowerClass

pytestmark = [pytest.mark.browser,
              pytest.mark.skipif(not shutil.which("chromium"), reason="Chromium is not installed")]

PATIENCE_S = 30
NAVIGATED = "Inspected target navigated or closed"
"""What Chromium says of a page that goes to another one before it has answered."""


class Navigated(Exception):
    """The page went to another one before it had answered."""


class Browser:
    """A headless Chromium, of which one tab is looked at; ``complaints`` gathers what that one logs."""

    def __init__(self, folder: Path) -> None:
        to_browser, self._ours_out = os.pipe()
        self._ours_in, from_browser = os.pipe()
        chromium = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                    "--disable-background-networking", "--disable-component-update", "--disable-sync",
                    "--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"]
        # Chromium reads commands from file descriptor 3 and answers on 4.
        self._process = subprocess.Popen(["bash", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "-", *chromium],
                                         pass_fds=[to_browser, from_browser], stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self._reader, self._ids, self._session = b"", itertools.count(1), ""
        self.complaints: list[dict[str, Any]] = []

    @contextmanager
    def tab(self) -> Iterator[None]:
        """Look at a new tab, which knows nothing of those before, meanwhile."""
        context = self.call("Target.createBrowserContext")
        target = self.call("Target.createTarget", url="about:blank", **context)["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.complaints = []
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        yield
        self._session = ""
        self.call("Target.disposeBrowserContext", **context)

    def close(self) -> None:
        os.close(self._ours_out)
        os.close(self._ours_in)
        self._process.wait(PATIENCE_S)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._ids)
        message = {"id": number, "method": method, "params": parameters}
        os.write(self._ours_out, json.dumps(message | ({"sessionId": self._session} if self._session else {})).encode()
                 + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                if answer.get("error", {}).get("message") == NAVIGATED:
                    raise Navigated
                assert "error" not in answer, answer
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._reader:
            read = os.read(self._ours_in, 1 << 16)
            assert read, "Chromium is gone"
            self._reader += read
        raw, _, self._reader = self._reader.partition(b"\0")
        message = json.loads(raw)
        logged = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
        if message.get("method") in logged and message["sessionId"] == self._session:
            self.complaints.append(message["params"])
        return message

    def script(self, expression: str) -> Any:
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def wait_for(self, expression: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while not self._holds(expression):
            assert time.monotonic() < end, expression

    def _holds(self, expression: str) -> bool:
        """Tell whether something is true; it is not yet of a page that goes to another while it is asked."""
        try:
            return bool(self.script(expression))
        except Navigated:
            return False

    def open(self, url: str, width: int, height: int = 900) -> None:
        # A headless window is at least 500 wide: anything narrower is the emulation of a phone, with its own viewport.
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 500)
        self.call("Page.navigate", url=url)
        self.wait_for(f"location.href === {json.dumps(url)} && document.readyState === 'complete'")

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                      windowsVirtualKeyCode={"Tab": 9, "Enter": 13}[key], **({"text": "\r"} if key == "Enter" else {}))


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One process for all: a start takes more than most tests."""
    chromium = Browser(tmp_path_factory.mktemp("chromium"))
    yield chromium
    chromium.close()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    with chromium.tab():
        yield chromium


@pytest.fixture
def hurried(monkeypatch) -> None:
    """Refresh four times a second instead of every ten seconds."""
    monkeypatch.setattr("idlewatt.daemon.web.page.REFRESH_S", 0.25)


@pytest.mark.parametrize("width", [390, 1280])
def test_page_fits_its_window_and_has_nothing_to_complain_of(serve, view, browser, width):
    browser.open(serve(WebApp(view)).urls[0], width)
    assert browser.script("document.documentElement.scrollWidth") <= width
    assert browser.script("document.querySelectorAll('.bar rect').length") > 10
    assert browser.script("Math.min(...[...document.querySelectorAll('.bar')].map(bar => bar.clientHeight))") >= 10
    assert browser.complaints == []


@pytest.mark.parametrize("width", [390, 1280])
def test_the_name_of_a_partition_stands_on_one_line_beside_whatever_is_told_of_it(serve, view, browser, width):
    browser.open(serve(WebApp(view)).urls[0], width)
    longer = "told => told.append(', and more of it, not measured'.repeat(3))"
    browser.script(f"document.querySelectorAll('.figures').forEach({longer})")
    names = "[...document.querySelectorAll('.partitions .name')]"
    assert browser.script(f"{names}.length") > 1
    assert browser.script(f"Math.max(...{names}.map(name => name.clientHeight))") < 30


@pytest.mark.parametrize("width", [390, 1280])
def test_names_without_an_end_do_not_widen_the_page(serve, view, browser, width):
    long = "x" * 250
    view.job_rows = tuple(replace(job, name=long, user=long, partition=long) for job in view.job_rows)
    view.advice = tuple(replace(one, reason=long, policy=long) for one in view.advice)
    view.waste_rows += (WasteRow(long, long, PowerClass.STRANDED, 900.0, True, 0),)
    view.source_rows = tuple(replace(source, name=long, error=long) for source in view.source_rows)
    view.node_rows = tuple(replace(row, node=replace(row.node, name=long), power_down=long) for row in view.node_rows)
    view.lacking = (long,)
    browser.open(serve(WebApp(view)).urls[0], width)
    assert browser.script("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_the_pages_of_jobs_users_and_nodes_fit_their_window(serve, view, browser, width):
    view.job_rows = tuple(replace(job, name="x" * 250) for job in view.job_rows)
    root = serve(WebApp(view)).urls[0]
    for path in ("jobs", "jobs/4711", "jobs/4722", "jobs/666", "users", "users/alice", "nodes/dgx01"):
        browser.open(root + path, width)
        assert browser.script("document.documentElement.scrollWidth") <= width, path
        assert browser.script("document.querySelectorAll('section').length") >= 1
        assert browser.complaints == [], path


@pytest.mark.parametrize("width", [390, 1920])
def test_what_is_not_there_is_said_on_a_page_that_fits_and_leads_back(serve, view, browser, width):
    root = serve(WebApp(view)).urls[0]
    for path, words in (("jobs/none", "No job 'none' is known."),
                        ("users/%3Cb%3E", "Nothing is known of a user '<b>'."),
                        ("nodes/" + "n" * 200, "No node "), ("jobs?since=soon", "'soon' is no age"),
                        ("jobs?since=2099-01-01", "Since lies in the future.")):
        browser.open(root + path, width)
        assert words in browser.script("document.getElementById('error').textContent"), path
        assert browser.script("document.documentElement.scrollWidth") <= width, path
        assert browser.script("document.querySelector('#error a').href") == root + "jobs"


def test_a_waiting_job_is_read_on_a_phone_in_the_dark_and_when_nothing_is_known(serve, view, browser):
    root = serve(WebApp(view)).urls[0]
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    browser.open(root + "jobs/4722", 390)
    assert browser.script("getComputedStyle(document.body).backgroundColor") == "rgb(17, 23, 29)"
    assert browser.script("document.querySelectorAll('#wait ~ div tbody tr').length") == 3
    assert browser.script("[...document.querySelectorAll('td code')].every(one => one.offsetWidth < 360)")
    view.told = ()
    browser.open(root + "jobs/4722?", 390)
    assert browser.script("document.getElementById('wait').textContent").startswith("When it starts is not known")
    assert browser.complaints == []


def test_a_page_that_goes_to_another_while_it_is_asked_is_asked_again(browser, monkeypatch):
    answer, went = browser._next, iter((True,))

    def interrupted() -> dict[str, Any]:
        told = answer()
        return {"id": told["id"], "error": {"code": -32000, "message": NAVIGATED}} \
            if "id" in told and next(went, False) else told

    monkeypatch.setattr(browser, "_next", interrupted)
    browser.wait_for("1 === 1")
    assert next(went, None) is None


def test_filters_work_by_keyboard_and_without_javascript(serve, view, browser):
    root = serve(WebApp(view)).urls[0]
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(root + "jobs", 390)
    browser.script("document.querySelector('[name=user]').value = 'bob'; document.querySelector('form button').focus()")
    browser.press("Enter")
    browser.wait_for("location.search.includes('user=bob') && document.readyState === 'complete'")
    assert browser.script("document.querySelectorAll('#found tbody tr').length") == 1
    assert browser.complaints == []


def test_all_that_is_said_of_a_job_stands_beside_it_or_on_a_phone_below(serve, view, browser):
    view.advice = tuple(replace(one, wait_change_s=-600.0, interval_s=(-900.0, -300.0), reasons=("a", "b"))
                        for one in view.advice)
    url = serve(WebApp(view)).urls[0]
    browser.open(url, 1280)
    left = "Math.min(...[...document.querySelectorAll('.card > :not(.who)')].map(part => part.offsetLeft))"
    assert browser.script("document.querySelectorAll('.card .reason').length") >= 3
    assert browser.script(f"(who => {left} > who.offsetLeft + who.offsetWidth)(document.querySelector('.who'))")
    browser.open(url + "#jobs", 390)
    assert browser.script(f"{left} === document.querySelector('.who').offsetLeft")


def test_page_refreshes_without_losing_the_place(serve, view, browser, hurried, monkeypatch):
    asked = []
    monkeypatch.setattr(type(view), "missing", lambda self: asked.append(1) or (f"answer {len(asked)}",))
    browser.open(serve(WebApp(view)).urls[0], 390)
    browser.script("window.sources = document.getElementById('sources'); scrollTo(0, 500)")
    first = browser.script("document.getElementById('missing').textContent")
    browser.wait_for(f"document.getElementById('missing').textContent !== {json.dumps(first)}")
    assert browser.script("scrollY") == 500
    assert browser.script("window.sources.isConnected"), "what has not changed is not drawn again"
    assert browser.complaints == []


def test_focus_stays_where_it_was_when_its_section_changes(serve, view, browser, hurried):
    browser.open(serve(WebApp(view)).urls[0], 1280)
    browser.script("document.querySelector('#power .scroll').focus()")
    view.waste_rows = view.waste_rows[:20]
    before = browser.script("document.querySelector('#power strong').textContent")
    browser.wait_for(f"document.querySelector('#power strong').textContent !== {json.dumps(before)}")
    assert browser.script("document.activeElement === document.querySelector('#power .scroll')")


def test_new_section_appears_and_an_old_one_goes(serve, view, browser, hurried):
    spare, view.node_rows = view.node_rows, ()
    browser.open(serve(WebApp(view)).urls[0], 1280)
    assert not browser.script("document.getElementById('spare')")
    view.node_rows = spare
    browser.wait_for("document.getElementById('spare') !== null")
    order = "[...document.querySelector('main').children].map(part => part.id).join(' ')"
    assert browser.script(order) == "power partitions wasters jobs racks spare sources more"
    view.waste_rows = view.waste_rows[:20]
    browser.wait_for(f"{order} === 'power wasters jobs racks spare sources more'")


def test_page_says_when_the_daemon_no_longer_answers_and_when_it_does_again(serve, view, browser, hurried):
    app, down = WebApp(view), []

    def sometimes(environ, start_response):
        if down:
            start_response("503 Service Unavailable", [("Content-Length", "0")])
            return []
        return app(environ, start_response)

    browser.open(serve(sometimes).urls[0], 1280)
    down.append(True)
    browser.wait_for("document.body.classList.contains('stale')")
    assert browser.script("document.getElementById('power') !== null"), "what was known stays"
    down.clear()
    browser.wait_for("!document.body.classList.contains('stale')")


def test_keyboard_reaches_every_link_and_skips_to_the_content(serve, view, browser):
    browser.open(serve(WebApp(view)).urls[0], 1280)
    links, reached = browser.script("document.querySelectorAll('a').length"), set()
    for _ in range(links + 5):
        browser.press("Tab")
        reached.add(browser.script("document.activeElement.matches('a') ? document.activeElement.textContent : ''"))
        outline = browser.script("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none" or browser.script("document.activeElement === document.body"), "focus is seen"
        if len(reached - {""}) == 1:
            assert reached == {"Skip to content"}
    texts = browser.script("[...document.querySelectorAll('a')].map(link => link.textContent)")
    assert reached - {""} == set(texts)
