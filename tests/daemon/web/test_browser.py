import shutil
import subprocess

import pytest

from idlewatt.daemon.web.app import WebApp

pytestmark = [pytest.mark.browser,
              pytest.mark.skipif(not shutil.which("chromium"), reason="Chromium is not installed")]


def browse(url: str, folder, *arguments: str) -> tuple[str, str]:
    """Return the page as Chromium has it after its scripts ran, and what it complained of."""
    seen = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-logging=stderr",
         f"--user-data-dir={folder}", *arguments, url], capture_output=True, text=True, timeout=90)
    return seen.stdout, "\n".join(line for line in seen.stderr.splitlines() if "CONSOLE" in line)


def test_page_refreshes_itself_under_its_policy_without_a_complaint(serve, view, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(type(view), "missing", lambda self: asked.append(1) or (f"answer {len(asked)}",))
    server = serve(WebApp(view))
    page, complaints = browse(server.urls[0], tmp_path, "--virtual-time-budget=25000", "--dump-dom")
    assert complaints == ""
    assert len(asked) >= 2, "the script fetched the page again"
    assert "Not ready yet: answer 1." not in page
    assert "Not ready yet: answer" in page
    assert 'class="stale"' not in page


def test_page_says_when_the_daemon_no_longer_answers(serve, view, tmp_path, monkeypatch):
    app, asked = WebApp(view), []

    def once(environ, start_response):
        if environ["PATH_INFO"] == "/" and asked.append(1) is None and len(asked) > 1:
            start_response("503 Service Unavailable", [("Content-Length", "0")])
            return []
        return app(environ, start_response)

    page, _ = browse(serve(once).urls[0], tmp_path, "--virtual-time-budget=25000", "--dump-dom")
    assert len(asked) >= 2
    assert '<body class="stale">' in page
    assert "Where the watts go" in page
