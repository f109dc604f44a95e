"""The ledger of notices on the command line and in the API, and the degraded state that undelivered ones are."""

import json
from dataclasses import replace

from idlewatt.daemon.degraded import HealthFacts, Undelivered, found
from idlewatt.storage.notices import Notice


def test_the_ledger_is_shown_filtered_and_harmless_and_users_opt_out_and_in(serve, rig, tmp_path):
    shell = serve()
    notice = Notice("idle_gpus", "first", "mail", "1", 0.0, 10.0, "idle_gpus", "ada", "lab", "gpu", "sent",
                    rig.now_s - 60, rig.now_s - 60, "All idle.", "End it.", "ada@example.org", sent_s=rig.now_s - 60)
    bob = replace(notice, job_id="2", user="=bob\x1b[31m", state="waiting", why="one mail a day")
    shell.service.history.record_notices([notice, bob])
    lines = shell.run("notices", env={"COLUMNS": "80"}).stdout.splitlines()
    assert (len(lines), max(map(len, lines)) <= 80, "\x1b" in "".join(lines)) == (3, True, False)
    assert [row["user"] for row in shell.json("notices", "--user", "ada")] == ["ada"]
    assert [row["why"] for row in shell.json("notices", "--state", "waiting")] == ["one mail a day"]
    assert shell.csv("notices", "--state", "waiting")[0]["user"].startswith("'=bob")
    refused = shell.run("notices", "--state", "nonsense")
    assert (refused.exit_code, "state must be one of dry_run, waiting" in refused.stderr) == (2, True)
    config = tmp_path / "c.yml"
    config.write_text(rig.text())
    say = ("--config.file", str(config))
    assert shell.text("notices", "opt-out", "ada", *say) == "ada gets no more notices\n"
    assert shell.text("notices", "opted-out", *say) == "ada\n"
    assert json.loads(shell.text("notices", "opted-out", "--format", "json", *say)) == [{"user": "ada"}]
    assert shell.text("notices", "opted-out", "--format", "csv", *say) == "user\nada\n"
    assert shell.text("notices", "opt-out", "ada", "--undo", *say) == "ada gets notices again\n"
    assert shell.run("notices", "opt-out", "ada", "--undo", *say).exit_code == 1


def test_undelivered_notices_are_degraded_with_reason_and_time():
    (one,) = found(HealthFacts(1_795_000_000.0, undelivered=Undelivered(3, 1_794_990_000.0, "mail: refused")))
    assert one.cause == "notices_behind"
    assert one.words.startswith("3 notices not delivered (mail: refused) since ")


def test_a_daemon_has_a_cycle_for_notices_only_if_notices_are_configured(rig):
    service = rig.service()
    assert "notices" not in service.beat.health()
    rules = "{enabled: true, rules: [{kind: idle_gpus}]}"
    again = rig.service(storage=f"{{url: 'sqlite:///{rig.folder / 'other.db'}'}}", notices=rules)
    assert "notices" in again.beat.health()
    rig.watch(again, 15)
    again.beat.run("notices")
    assert again.beat.health()["notices"].failures == 0


def test_a_digest_is_shown_as_text_page_and_json(serve):
    shell = serve()
    assert "No energy was recorded in these days." in shell.text("digest", "--since", "7d")
    assert shell.text("digest", "--format", "html", "--account", "<x>").startswith("<!doctype html>")
    assert shell.json("digest", "--since", "7d")["account"] == ""


def test_the_reclaim_list_is_empty_where_nothing_is_known(serve):
    shell = serve()
    assert shell.text("reclaim").strip() == "no job holds idle GPUs"
    assert shell.json("reclaim", "--whole") == shell.csv("reclaim") == []
