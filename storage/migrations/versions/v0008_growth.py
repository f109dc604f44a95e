"""Windows in packed rows, the advice in force overwritten, and verdicts that keep it and tell what differed.

Windows recorded so far stay where they are and can be read; retention packs them later, a little at a time.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
LIST = sa.JSON(none_as_null=True)
WITHIN_S = 600.0
FIGURE = re.compile(r"#|\d+(?:\.\d+)?")
AT_ONCE = 2000
# What the old tables hold as far as it is read here, and the new ones as far as they are written.
JOBS = sa.table("jobs", sa.column("job_id"), sa.column("submit_s"), sa.column("start_s"))
ALLOCATIONS = sa.table("allocations", sa.column("run"), sa.column("node"), sa.column("gpus"))
ADVICE = sa.table(
    "recommendations", *map(sa.column, ("id", "job_id", "submit_s", "policy", "action", "objective", "reason")),
    *map(sa.column, ("expected_start_s", "issued_s", "last_issued_s")), sa.column("nodes", LIST),
    sa.column("gpus", LIST))
JUDGED = sa.table("verdicts_before", *map(sa.column, ("run", "policy", "start_s", "recommendation")),
                  sa.column("shadow", sa.Boolean()))
PHRASES = sa.table("phrases", sa.column("id"), sa.column("text"))
CHANGES = sa.table("advice_changes", *map(sa.column, ("time_s", "job_id", "submit_s", "policy", "action", "reason",
                                                      "figures")))
VERDICTS = sa.table(
    "verdicts", *map(sa.column, ("run", "policy", "verdict", "action", "objective", "reason", "figures")),
    sa.column("shadow", sa.Boolean()), sa.column("nodes", LIST), sa.column("gpus", LIST),
    *(sa.column(name, sa.Double()) for name in ("expected_start_s", "issued_s", "last_issued_s")))
ADHERENCE = sa.table("adherence", sa.column("policy"), sa.column("shadow", sa.Boolean()), sa.column("action"),
                     sa.column("verdict"), sa.column("runs"))
REASONED = ("action", "objective", "reason", "nodes", "gpus", "expected_start_s", "issued_s", "last_issued_s")


def upgrade() -> None:
    for name in ("gpu_windows", "waste_windows"):
        op.create_table(
            name,
            sa.Column("start_s", sa.Double(), nullable=False),
            sa.Column("seconds", sa.Double(), nullable=False),
            sa.Column("packed", sa.LargeBinary(), nullable=False),
            sa.PrimaryKeyConstraint("start_s", "seconds", name=f"pk_{name}"))
    create_phrases()
    create_changes()
    phrases = Phrases()
    note_changes(phrases)
    rebuild_verdicts(phrases)
    keep_last_advice()


def create_phrases() -> None:
    op.create_table(
        "phrases",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_phrases"),
        sa.UniqueConstraint("text", name="uq_phrases_text"))
    op.create_table(
        "adherence",
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("shadow", sa.Boolean(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("runs", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("policy", "shadow", "action", "verdict", name="pk_adherence"))


def create_changes() -> None:
    op.create_table(
        "advice_changes",
        sa.Column("time_s", sa.Double(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("submit_s", sa.Double(), nullable=False),
        sa.Column("policy", ROW_ID, nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("reason", ROW_ID, nullable=False),
        sa.Column("figures", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("time_s", "job_id", "submit_s", "policy", name="pk_advice_changes"),
        sqlite_with_rowid=False)


class Phrases(dict[str, int]):
    """Numbers of phrases, given as they come."""

    def __missing__(self, text: str) -> int:
        number = self[text] = len(self) + 1
        op.get_bind().execute(PHRASES.insert(), {"id": number, "text": text})
        return number

    def taken_apart(self, sentence: str) -> tuple[int, str]:
        return self[FIGURE.sub("#", sentence)], ",".join(FIGURE.findall(sentence))


def note_changes(phrases: Phrases) -> None:
    """Keep of all advice where the action or the reason changed, figures in it apart."""
    key = ADVICE.c.job_id, ADVICE.c.submit_s, ADVICE.c.policy, ADVICE.c.issued_s
    rows = _streamed(sa.select(*key, ADVICE.c.action, ADVICE.c.reason).order_by(*key))
    before, changes = None, []
    for job_id, submit_s, policy, issued_s, action, reason in rows:
        number, figures = phrases.taken_apart(reason)
        if (job_id, submit_s, policy, action, number) != before:
            changes.append({"time_s": issued_s, "job_id": job_id, "submit_s": submit_s, "policy": phrases[policy],
                            "action": action, "reason": number, "figures": figures})
        before = job_id, submit_s, policy, action, number
        if len(changes) >= AT_ONCE:
            _insert(CHANGES, changes)
            changes = []
    _insert(CHANGES, changes)
    _number_on()


def _number_on() -> None:
    """Let PostgreSQL go on after the numbers that were given here."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute("SELECT setval(pg_get_serial_sequence('phrases', 'id'), "
                   "(SELECT coalesce(max(id), 0) + 1 FROM phrases), false)")


def rebuild_verdicts(phrases: Phrases) -> None:
    """Give verdicts the advice that they are about, and judge them again by it."""
    op.drop_index("ix_verdicts_recommendation", "verdicts")
    op.rename_table("verdicts", "verdicts_before")
    # PostgreSQL keeps the names of what hangs on the renamed table.
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE verdicts_before RENAME CONSTRAINT pk_verdicts TO pk_verdicts_before")
        op.execute("ALTER TABLE verdicts_before RENAME CONSTRAINT fk_verdicts_run TO fk_verdicts_run_before")
    create_verdicts()
    held, counts, verdicts = _held(), dict[tuple[str, bool, str, str], int](), list[dict[str, Any]]()
    judged = sa.select(JUDGED.c.run, JUDGED.c.policy, JUDGED.c.shadow, JUDGED.c.start_s,
                       *(ADVICE.c[name] for name in REASONED))
    for run, policy, shadow, start_s, *advice in _streamed(
            judged.outerjoin_from(JUDGED, ADVICE, ADVICE.c.id == JUDGED.c.recommendation).order_by(JUDGED.c.run)):
        advised = dict(zip(REASONED, advice, strict=True))
        verdict = _verdict(advised, held.get(run, {}), start_s)
        number, figures = phrases.taken_apart(advised["reason"]) if advised["reason"] is not None else (None, None)
        objective = None if advised["objective"] is None else phrases[advised["objective"]]
        verdicts.append(advised | {"run": run, "policy": phrases[policy], "shadow": shadow, "verdict": verdict,
                                   "reason": number, "figures": figures, "objective": objective})
        key = policy, shadow, advised["action"] or "", verdict
        counts[key] = counts.get(key, 0) + 1
        if len(verdicts) >= AT_ONCE:
            _insert(VERDICTS, verdicts)
            verdicts = []
    _insert(VERDICTS, verdicts)
    _insert(ADHERENCE, [dict(zip(("policy", "shadow", "action", "verdict", "runs"), (*key, runs), strict=True))
                          for key, runs in counts.items()])
    op.drop_table("verdicts_before")
    _number_on()


def create_verdicts() -> None:
    op.create_table(
        "verdicts",
        sa.Column("run", ROW_ID, nullable=False),
        sa.Column("policy", ROW_ID, nullable=False),
        sa.Column("shadow", sa.Boolean(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=True),
        sa.Column("objective", ROW_ID, nullable=True),
        sa.Column("reason", ROW_ID, nullable=True),
        sa.Column("figures", sa.Text(), nullable=True),
        sa.Column("nodes", LIST, nullable=True),
        sa.Column("gpus", LIST, nullable=True),
        sa.Column("expected_start_s", sa.Double(), nullable=True),
        sa.Column("issued_s", sa.Double(), nullable=True),
        sa.Column("last_issued_s", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name="fk_verdicts_run", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run", "policy", name="pk_verdicts"),
        sqlite_with_rowid=False)


def keep_last_advice() -> None:
    """Leave one row for each job that has not started and each policy: its last."""
    last = sa.select(sa.func.max(ADVICE.c.id)).group_by(ADVICE.c.job_id, ADVICE.c.submit_s, ADVICE.c.policy)
    started = sa.select(JOBS.c.job_id).where(JOBS.c.job_id == ADVICE.c.job_id, JOBS.c.submit_s == ADVICE.c.submit_s,
                                             JOBS.c.start_s.is_not(None)).exists()
    op.execute(ADVICE.delete().where(sa.or_(ADVICE.c.id.not_in(last), started)))
    op.drop_index("ix_recommendations_last_issued_s", "recommendations")
    with op.batch_alter_table("recommendations") as table:
        table.drop_constraint("uq_recommendations_job_id_submit_s_policy_issued_s", type_="unique")
        table.create_unique_constraint("uq_recommendations_job_id_submit_s_policy", ["job_id", "submit_s", "policy"])
        table.add_column(sa.Column("before", LIST, nullable=False, server_default="[]"))
        table.add_column(sa.Column("noted", ROW_ID, nullable=True))
        table.add_column(sa.Column("noted_s", sa.Double(), nullable=True))


def _verdict(advised: Mapping[str, Any], held: Mapping[str, int], start_s: float) -> str:
    if advised["nodes"] is None:
        return "not advised"
    if dict(zip(advised["nodes"], advised["gpus"] or (), strict=False)) != held:
        return "elsewhere"
    moment = advised["issued_s"] if advised["action"] == "start" else advised["expected_start_s"]
    if moment is None or math.fabs(start_s - moment) <= WITHIN_S:
        return "followed"
    return "earlier" if start_s < moment else "later"


def _held() -> dict[int, dict[str, int]]:
    """Return GPUs by node of the runs that were judged."""
    held: dict[int, dict[str, int]] = {}
    query = sa.select(ALLOCATIONS).where(ALLOCATIONS.c.run.in_(sa.select(JUDGED.c.run)))
    for run, node, gpus in _streamed(query):
        held.setdefault(run, {})[node] = gpus
    return held


def _streamed(query: sa.Select[Any]) -> Iterator[Any]:
    """Yield rows without holding all of them."""
    yield from op.get_bind().execute(query.execution_options(stream_results=True)).yield_per(AT_ONCE)


def _insert(table: sa.TableClause, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        op.get_bind().execute(table.insert(), rows)
