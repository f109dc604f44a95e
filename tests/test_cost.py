import subprocess
import sys
import time
from types import SimpleNamespace

import cost
import pytest
from cost import MARGIN, Bill, Meter, slowness, widened

LONGEST_NAME = 2000


def test_no_name_of_a_test_is_long(request):
    """Names travel from each worker to the first process, and stand in the environment of every child."""
    assert [item.nodeid[:100] for item in request.session.items if len(item.nodeid) > LONGEST_NAME] == []


def burn(cpu_s: float) -> None:
    until_s = time.process_time() + cpu_s
    while time.process_time() < until_s:
        pass


def reported(meter: Meter, when: str) -> list[tuple[str, object]]:
    """Return what the meter adds to the report of a phase."""
    report = SimpleNamespace(user_properties=[])
    making = meter.pytest_runtest_makereport(SimpleNamespace(when=when))
    next(making)
    with pytest.raises(StopIteration):
        making.send(report)
    return report.user_properties


def test_a_test_costs_what_it_and_its_children_compute_and_no_waiting():
    meter = Meter()
    meter.pytest_runtest_logstart()
    burn(0.2)
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass"], check=True)
    assert reported(meter, "call") == []
    ((name, cost_s),) = reported(meter, "teardown")
    assert name == "cpu_s"
    assert 0.5 <= cost_s < 5.0


def test_a_test_far_above_its_budget_fails_a_run_of_ci_and_is_named():
    for limit_s, dear in ((48.0, ["dear"]), (float("inf"), [])):
        bill = Bill(limit_s)
        for test, cost_s in (("cheap", 5.9), ("loaded", 40.0), ("dear", 50.0), ("shared", 60.0)):
            bill.pytest_runtest_logreport(SimpleNamespace(
                nodeid=test, when="teardown", keywords={"stack": 1} if test == "shared" else {},
                user_properties=[("cpu_s", cost_s), ("other", "x")]))
        session = SimpleNamespace(exitstatus=pytest.ExitCode.OK)
        bill.pytest_sessionfinish(session)
        assert bill.too_dear() == dear
        assert session.exitstatus == (pytest.ExitCode.TESTS_FAILED if dear else pytest.ExitCode.OK)


def test_the_dearest_are_shown_first():
    bill, lines = Bill(48.0), []
    bill.costs_s = {"little": 0.1, "dear": 50.0, "much": 7.0}
    bill.pytest_terminal_summary(SimpleNamespace(
        section=lines.append, line=lambda line, **_markup: lines.append(line)))
    assert [line.split()[-1] for line in lines[1:4]] == ["dear", "much", "little"]
    assert lines[0].startswith("57 CPU s")
    assert lines[4].endswith("dear")
    assert len(lines) == 5


def test_usual_cores_are_no_slower_than_themselves():
    assert 1.0 <= slowness() < 100.0


def test_cores_that_were_slow_once_are_not_trusted_to_be_quick(monkeypatch):
    """One of several tests looked in a quick moment, and a minute's bound was not widened."""
    monkeypatch.setattr(cost, "_seen", [40.0])
    assert slowness() >= 40.0
    assert widened(2) >= 2 * MARGIN * 40.0
