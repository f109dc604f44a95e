"""The view tells what the API says: watts by class, advice, sources; on any terminal, and on none."""

import io
from collections.abc import Iterator

import click
import pytest
import responses
from click.testing import CliRunner
from rich.console import Console

from idlewatt.daemon.cli import live
from idlewatt.daemon.cli._screen import Picture, screen, summary

URL = "http://127.0.0.1:9723"


def waste(power_class: str, power: float | None, gpu: int | None = 0, source: str = "",
          unused: float | None = 0.0) -> dict:
    return {"partition": "A100", "node": "dgx-a100-01", "power_class": power_class, "power_watts": power, "gpu": gpu,
            "power_source": source, "unused_power_watts": unused}


def job(job_id: str, submit_s: float = 0.0, state: str = "pending", gpus: int = 2, **more) -> dict:
    return {"job_id": job_id, "submit_s": submit_s, "state": state, "user": "bob", "partition": "V100", "tasks": 1,
            "request": {"gpus": gpus}} | more


def advice(job_id: str, action: str = "start", **more) -> dict:
    placement = {"nodes": ["dgx-v100-02"], "gpus": [2]} if action == "start" else None
    return {"job_id": job_id, "submit_s": 0.0, "action": action, "placement": placement, "policy": "limit-aged",
            "reason": "fits beside nothing else", "shadow": False} | more


def source(name: str = "dcgm", up: bool = True, error: str = "", targets: tuple[dict, ...] = ()) -> dict:
    return {"name": name, "kind": name, "role": "telemetry", "up": up, "error": error, "targets": list(targets)}


ANSWERS = {
    "waste": [waste("productive", 6000.0), waste("allocated_idle", 1500.0), waste("allocated_idle", 500.0),
              waste("host_active", 2000.0, None, "ipmi")],
    "recommendations": [advice("11"), advice("10", "hold", reason="needs both nodes")],
    "jobs": [job("10", gpus=16), job("11"), job("1", state="running")],
    "sources": [source(), source("ipmi", False, targets=(
        {"target": "dgx-a100-01", "up": True, "error": ""},
        {"target": "dgx-v100-02", "up": False, "error": "HTTP 503"}))],
}


def picture(**changes) -> Picture:
    return Picture(**(ANSWERS | changes))


def drawn(picture: Picture, width: int = 120, height: int = 40, footer: tuple[str, ...] = ()) -> str:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    console.print(screen(picture, width, height, footer))
    return console.file.getvalue()


@pytest.fixture
def daemon() -> Iterator[responses.RequestsMock]:
    with responses.RequestsMock(assert_all_requests_are_fired=False) as daemon:
        for path, rows in ANSWERS.items():
            daemon.get(f"{URL}/api/v1/{path}", json={"status": "success", "data": rows})
        yield daemon


def test_the_title_tells_the_wall_watts_and_the_wasted_share():
    assert "10.00 kW at the wall, 2.00 kW wasted (20 %)" in drawn(picture())


def test_what_is_not_measured_makes_the_waste_a_lower_bound():
    rows = [*ANSWERS["waste"], waste("unmeasured", 3100.0, None, "ipmi")]
    assert "13.10 kW at the wall, at least 2.00 kW wasted, 3.10 kW not measured" in drawn(picture(waste=rows))


def test_without_a_wall_meter_nothing_is_said_to_be_at_the_wall():
    rows = [waste("productive", 300.0), waste("host_active", 400.0, None, "estimated")]
    assert "700 W of GPUs and estimated hosts, 0 W wasted (0 %)" in drawn(picture(waste=rows))
    assert not any("at the wall" in line for line in summary(picture(waste=rows)))


@pytest.mark.parametrize(("unused", "said", "share"), [(1500.0, "1.50 kW", "15 %"), (None, "not measured", "")])
def test_the_unused_part_of_busy_nodes_stands_below_its_class_and_in_the_title(unused, said, share):
    rows = [*ANSWERS["waste"][:-1], waste("host_active", 2000.0, None, "ipmi", unused)]
    for lines in (drawn(picture(waste=rows)).splitlines(), list(summary(picture(waste=rows)))):
        above, part = (next(line for line in lines if label in line and "wasted" not in line)
                       for label in ("Node overhead (CPU, fans)", "  Unused part of busy nodes"))
        assert lines.index(part) == lines.index(above) + 1
        assert part.split("nodes")[1].replace("█", "").split() == [*said.split(), *share.split()]
    title = {1500.0: "3.50 kW wasted or unused (35 %: 2.00 kW wasted, 1.50 kW unused part of busy nodes)",
             None: "at least 2.00 kW wasted or unused, unused part of 1 busy node not measured"}[unused]
    assert f"10.00 kW at the wall, {title}" in next(summary(picture(waste=rows)))


def test_gpus_in_use_outside_the_scheduler_are_named():
    rows = [*ANSWERS["waste"], waste("outside_scheduler", 690.0, 3)]
    assert "in use outside the scheduler: dgx-a100-01 GPU 3" in drawn(picture(waste=rows))
    assert "  in use outside the scheduler: dgx-a100-01 GPU 3" in list(summary(picture(waste=rows)))


def test_waste_stands_above_what_is_useful_and_the_longest_bar_is_the_largest_class():
    text = drawn(picture())
    assert text.index("Allocated, idle") < text.index("Productive")
    lengths = {line.split("  ")[0]: line.count("█") for line in text.splitlines() if "█" in line}
    assert max(lengths, key=lengths.get) == "Productive"
    assert lengths["Productive"] == pytest.approx(3 * lengths["Allocated, idle"], abs=1)


def test_jobs_to_start_now_come_first_with_their_nodes_and_the_reason():
    lines = [line for line in drawn(picture()).splitlines() if "GPUs of V100" in line]
    assert "start on dgx-v100-02:2" in lines[0]
    assert "fits beside nothing else" in lines[0]
    assert "hold" in lines[1]


def test_shadow_advice_is_not_shown_as_ours():
    text = drawn(picture(recommendations=[advice("11", shadow=True)]))
    assert "start on" not in text


def test_a_broken_source_says_what_is_wrong():
    assert "1 of 2 targets up  dgx-v100-02: HTTP 503" in drawn(picture())


@pytest.mark.parametrize(("width", "height"), [(20, 10), (40, 12), (80, 24), (300, 100)])
def test_the_picture_fits_the_terminal(width, height):
    crowd = picture(jobs=[job(str(number), number) for number in range(200)])
    lines = drawn(crowd, width, height, ("http://127.0.0.1:9723/",)).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= max(height, 16)


def test_what_is_left_out_is_counted():
    text = drawn(picture(jobs=[job(str(number), number) for number in range(200)]), height=24)
    shown = text.count("GPUs of V100")
    assert 5 < shown < 20
    assert f"and {200 - shown} more" in text


def test_names_from_users_cannot_drive_the_terminal_or_the_markup():
    nasty = picture(jobs=[job("1", user="\x1b[2Jeve[bold]")])
    assert "\x1b[2J" not in drawn(nasty)
    assert "[bold]" in drawn(nasty)
    assert not any("\x1b" in line for line in summary(nasty))


def test_nothing_known_is_said_so():
    empty = Picture((), (), (), ())
    assert "no watts measured yet" in drawn(empty)
    assert list(summary(empty)) == ["no watts measured yet", "  source none"]


def test_without_a_terminal_plain_lines_are_written(daemon):
    result = CliRunner().invoke(live.command, ["--url", URL, "--once"])
    assert result.exit_code == 0
    assert result.output.splitlines()[0] == "10.00 kW at the wall, 2.00 kW wasted (20 %)"
    assert "  job 11 (2 GPUs of V100): start on dgx-v100-02:2 - fits beside nothing else [limit-aged]" in result.output


def test_a_login_in_the_address_does_not_stand_below_the_picture(monkeypatch):
    footers = []
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(live, "_draw", lambda console, look, every_s, footer, pause: footers.append(footer))
    live.watch("http://alice:s3cret@idlewatt-host:9723")
    assert footers == [("http://\N{HORIZONTAL ELLIPSIS}@idlewatt-host:9723",)]


def test_a_daemon_that_never_answered_ends_the_command(daemon):
    result = CliRunner().invoke(live.command, ["--url", "http://127.0.0.1:9", "--once"])
    assert result.exit_code == 3
    assert "no daemon answers" in result.output


def test_a_daemon_that_goes_away_leaves_the_last_picture_and_a_word(daemon):
    seen: list[tuple[Picture, str]] = []
    looks = live._looks(iter_of([picture(), click.ClickException("no daemon answers"), picture()]))
    seen = [next(looks) for _ in range(3)]
    assert [trouble for _, trouble in seen] == ["", "no daemon answers", ""]
    assert seen[1][0] is seen[0][0]


def test_interrupting_the_view_is_its_normal_end(daemon, monkeypatch):
    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(live, "watch", interrupt)
    assert CliRunner().invoke(live.command, ["--url", URL]).exit_code == 0


def iter_of(results: list):
    remaining = iter(results)

    def look() -> Picture:
        result = next(remaining)
        if isinstance(result, Exception):
            raise result
        return result

    return look
