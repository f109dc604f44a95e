"""A site that tells people: a job that idles, a ledger, a clock, and a real mail server."""

import contextlib
import shutil
import socket
import ssl
from dataclasses import dataclass, field, replace
from email import message_from_bytes
from email.policy import default

import pytest
import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP as Protocol
from aiosmtpd.smtp import AuthResult, Session

from idlewatt.daemon import config
from idlewatt.daemon.facts import Known
from idlewatt.daemon.notices.desk import Notifier
from idlewatt.daemon.waste import Assessment, GpuVerdict, run_of
from idlewatt.storage.history import History
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot

NOON = 1_795_176_000.0
"""A Friday, 12:00 UTC."""
HOUR = 3600.0


class Box:
    """Takes mails, and refuses those that a test wants refused."""

    def __init__(self) -> None:
        self.mails, self.raw, self.refuse = [], [], {}

    async def handle_RCPT(self, server, session, envelope, address, rcpt_options):  # noqa: N802 - aiosmtpd's name
        if address in self.refuse:
            return self.refuse[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session: Session, envelope):  # noqa: N802 - aiosmtpd's name
        self.raw.append(envelope.content)
        self.mails.append((tuple(envelope.rcpt_tos), message_from_bytes(envelope.content, policy=default),
                           server.transport.get_extra_info("ssl_object") is not None))
        return "250 OK"


@dataclass
class MailServer:
    """A real SMTP server, and how it is reached."""

    box: Box
    port: int
    ca_file: str = ""

    @property
    def mails(self):
        return self.box.mails


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    """Return a server context, and the file of who signed it."""
    ca = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    file = tmp_path_factory.mktemp("authority") / "ca.pem"
    ca.cert_pem.write_to_path(str(file))
    return context, str(file)


def checked(server, session, envelope, mechanism, data):
    return AuthResult(success=(data.login, data.password) == (b"idlewatt", b"secret"), handled=False)


class WithTls(Controller):
    """A server that speaks TLS from the first byte."""

    def __init__(self, box, context, **options) -> None:
        super().__init__(box, hostname="127.0.0.1", port=free_port(), ssl_context=context, **options)


class OfAscii(Controller):
    """A server that does not offer SMTPUTF8."""

    def __init__(self, box, port) -> None:
        super().__init__(box, hostname="127.0.0.1", port=port, enable_SMTPUTF8=False)


class WithStartTls(Controller):
    """A server that wants STARTTLS and a password."""

    def __init__(self, box, context) -> None:
        super().__init__(box, hostname="127.0.0.1", port=free_port())
        self._context = context

    def factory(self):
        return Protocol(self.handler, tls_context=self._context, require_starttls=True, auth_required=True,
                        authenticator=checked)


@pytest.fixture
def mail_server():
    """Return a function that starts a mail server: ``plain``, ``ascii``, ``tls`` or ``starttls``."""
    with contextlib.ExitStack() as stack:
        def start(kind: str = "plain", authority=None, port: int | None = None) -> MailServer:
            box = Box()
            context, file = authority or (None, "")
            made = {"plain": lambda: Controller(box, hostname="127.0.0.1", port=port or free_port()),
                    "ascii": lambda: OfAscii(box, free_port()), "tls": lambda: WithTls(box, context),
                    "starttls": lambda: WithStartTls(box, context)}[kind]()
            made.start()
            stack.callback(made.stop)
            return MailServer(box, made.port, file)

        yield start


JOB = Job("4711", NOON - 30 * HOUR, JobState.RUNNING, "a100", Request(4), user="ada", account="lab", name="train",
          start_s=NOON - 20 * HOUR, allocations=(Allocation("dgx01", 4, (0, 1, 2, 3), 16, 64 * 2**30),))


def idle(job: Job, since_s: float, gpus: int = 4, state: PowerClass = PowerClass.ALLOCATED_IDLE) -> list[GpuVerdict]:
    return [GpuVerdict(job.allocations[0].node, index, f"GPU-{job.job_id}-{index}", "NVIDIA A100-SXM4-40GB", "a100",
                         state, 60.0, 60.0, job_id=job.job_id, user=job.user, allocated=True, since_s=since_s,
                         run=run_of(job))
            for index in range(gpus)]


@dataclass
class Place:
    """What the desk sees and writes to; tests move its clock."""

    history: History
    now_s: float = NOON
    jobs: list[Job] = field(default_factory=lambda: [JOB])
    gpus: list[GpuVerdict] = field(default_factory=lambda: idle(JOB, NOON - 3 * HOUR))
    settings: str = ""
    whole: bool = True
    desks: list[Notifier] = field(default_factory=list)

    def desk(self, rules: str = "[{kind: idle_gpus}]", **more: object) -> Notifier:
        """Return a desk that really tells, by address ``USER@example.org``; ``more`` are keys of ``notices``."""
        keys = {"enabled": "true", "dry_run": "false", "rules": rules, "addresses": "{template: '{user}@example.org'}",
                "admins": "[root@example.org]", "mail": "{host: 127.0.0.1, port: 1, sender: idlewatt@example.org}",
                "timezone": "UTC", **more}
        text = "cluster: dgx\nnotices:\n" + "".join(f"  {key}: {value}\n" for key, value in keys.items())
        made = Notifier(config.parse(text), self.history, lambda: self.now_s)
        self.desks.append(made)
        return made

    def known(self) -> Known:
        nodes = tuple(Node(name, ("a100",), 8, cpus=128) for name in ("dgx01", "dgx02"))
        return Known(snapshot=SchedulerSnapshot(self.now_s, nodes, (), tuple(self.jobs), whole=self.whole),
                     assessment=Assessment(self.now_s, tuple(self.gpus)))

    def now(self, gpus: int, hours: float, state: PowerClass = PowerClass.ALLOCATED_IDLE) -> None:
        """Let GPUs of the first job have been in a state for some hours."""
        self.gpus[:] = idle(self.jobs[0], self.now_s - hours * HOUR, gpus, state)

    def look(self, desk: Notifier, after_s: float = 0.0) -> None:
        self.now_s += after_s
        desk.look(self.known())

    def states(self) -> list[tuple[str, str, str]]:
        """Return job, stage and state of the ledger, oldest first."""
        return [(one.job_id, one.stage, one.state) for one in sorted(
            self.history.notices(0.0), key=lambda one: (one.found_s, one.job_id))]

    def reasons(self) -> list[str]:
        return [one.why for one in self.history.notices(0.0)]

    def other(self, job_id: str, user: str = "ada", **more) -> Job:
        """Return one more job that has idled for three hours."""
        job = replace(JOB, job_id=job_id, user=user, allocations=(replace(JOB.allocations[0], node="dgx02"),), **more)
        self.jobs.append(job)
        self.gpus += idle(job, NOON - 3 * HOUR)
        return job


@pytest.fixture(scope="session")
def empty(tmp_path_factory):
    """Return an empty database: making one takes longer than most tests here."""
    file = tmp_path_factory.mktemp("empty") / "idlewatt.db"
    History.open(f"sqlite:///{file}").close()
    return file


@pytest.fixture
def place(tmp_path, empty):
    shutil.copy(empty, tmp_path)
    with History.open(f"sqlite:///{tmp_path}/idlewatt.db") as history:
        yield Place(history)
