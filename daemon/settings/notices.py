"""Which users are notified of what, when and how; nobody is notified until a site says so."""

from __future__ import annotations

from datetime import time
from pathlib import Path
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, model_validator

from .values import Duration, Ratio, StrictSettings, ZoneTime

Channel = Literal["mail", "webhook", "alertmanager", "hook"]
Command = tuple[str, ...]
Url = Annotated[str, Field(pattern=r"^https?://[^\s/]+")]
Day = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]


def _header(value: str) -> str:
    if not value.isprintable():
        raise ValueError("control characters cannot be in a header")
    return value


Header = Annotated[str, AfterValidator(_header)]


class ExclusionSettings(StrictSettings):
    """Jobs of which nobody is notified, by patterns such as ``svc-*``."""

    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    interactive: bool = True
    """Jobs of ``waste.interactive_partitions`` and those that people sit before."""


class RuleSettings(StrictSettings):
    """What a user is notified of. What is left out is as the kind has it."""

    kind: str
    """One of the kinds in docs/notices.md."""
    name: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9_.-]*$")] = ""
    """How it is called in the ledger; its kind where it is left out."""
    power_class: Annotated[str, Field(alias="class")] = ""
    """For ``kind: wasted``."""
    threshold: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    window: Duration | None = None
    activity_below: Ratio = 0.6
    """Mean activity of its GPUs from which the owner of a job is not notified, by kinds about little use."""
    min_gpu_hours: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    partitions: tuple[str, ...] = ()
    """Patterns; all where there is none."""
    exclude: ExclusionSettings = ExclusionSettings(interactive=False)
    channels: tuple[Channel, ...] = ("mail",)

    @property
    def called(self) -> str:
        """Return its name."""
        return self.name or self.kind


class EscalationSettings(StrictSettings):
    """When somebody is notified again, and when administrators are; null is never."""

    second_after: Duration | None = 86400.0
    """After the first notice, if it goes on."""
    admins_after: Duration | None = 172800.0


class QuietSettings(StrictSettings):
    """When no mail is sent: from one time of day until another, in local time, be it past midnight."""

    since: ZoneTime
    until: ZoneTime
    weekends: bool = False
    """Saturdays and Sundays whole."""


class AddressSettings(StrictSettings):
    """How a user's name becomes an address: the first of the two that is set."""

    template: str = ""
    """``{user}@example.org``"""
    command: Command = ()
    """Run without a shell, ``{user}`` replaced in its arguments; its first word with an @ is the address."""
    timeout: Duration = 5.0

    @model_validator(mode="after")
    def _names_the_user(self) -> AddressSettings:
        if self.template and (self.template.count("{user}") != 1 or "@" not in self.template):
            raise ValueError("template must be an address with {user} in it, once")
        return self


class _Peer(StrictSettings):
    ca_file: Path | None = None
    timeout: Duration = 10.0


class MailSettings(_Peer):
    """The mail server."""

    host: str
    port: Annotated[int, Field(ge=1, le=65535)] = 25
    tls: Literal["none", "starttls", "tls"] = "none"
    username: str = ""
    password_file: Path | None = None
    sender: Header
    reply_to: Header = ""

    @model_validator(mode="after")
    def _no_password_in_clear(self) -> MailSettings:
        if bool(self.username) != (self.password_file is not None):
            raise ValueError("username and password_file belong together")
        if self.username and self.tls == "none":
            raise ValueError("a password is only sent over tls or starttls")
        return self


class WebhookSettings(_Peer):
    """Where notices are posted as JSON."""

    url: Url
    token_file: Path | None = None


class AlertmanagerSettings(WebhookSettings):
    """Alertmanager's address without a path."""

    labels: dict[Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$")], Header] = {}


class HookSettings(StrictSettings):
    """Commands of the site's own for each stage, run without a shell; a notice comes as JSON on standard input."""

    first: Command = ()
    second: Command = ()
    admins: Command = ()
    timeout: Duration = 30.0
    dry_run: bool = True
    """Note in the ledger what would be run, and run nothing."""


class DigestSettings(StrictSettings):
    """A report each week."""

    enabled: bool = False
    day: Day = "monday"
    at: ZoneTime = time(7)
    """In local time."""
    owners: dict[str, Header] = {}
    """Addresses by account: each hears of its own."""


class NoticesSettings(StrictSettings):
    """Rules and channels."""

    enabled: bool = False
    dry_run: bool = True
    """Only the ledger is written: look at it before anybody is notified."""
    every: Annotated[Duration, Field(gt=0)] = 300.0
    rules: tuple[RuleSettings, ...] = ()
    exclude: ExclusionSettings = ExclusionSettings()
    escalation: EscalationSettings = EscalationSettings()
    quiet_hours: QuietSettings | None = None
    timezone: str = ""
    """Of quiet hours, of a day and of digests; the machine's where it is left out."""
    per_user: Annotated[Duration, Field(gt=0)] = 86400.0
    """Between two mails to one user; what comes in between waits for the next."""
    give_up: Duration = 259200.0
    """For how long what cannot be delivered is tried again."""
    opt_out_file: Path | None = None
    """Users who want to hear nothing, one a line."""
    page_url: str = ""
    """Where people reach the page: links in notices begin with it."""
    admins: tuple[Header, ...] = ()
    """Addresses."""
    addresses: AddressSettings = AddressSettings()
    mail: MailSettings | None = None
    webhook: WebhookSettings | None = None
    alertmanager: AlertmanagerSettings | None = None
    hooks: HookSettings = HookSettings()
    templates: Path | None = None
    """Folder of own templates; those that are not there are ours."""
    digest: DigestSettings = DigestSettings()

    @property
    def zone(self) -> ZoneInfo | None:
        """Return the time zone that is set; None for the machine's."""
        return ZoneInfo(self.timezone) if self.timezone else None

    @model_validator(mode="after")
    def _consistent(self) -> NoticesSettings:
        names = [rule.called for rule in self.rules]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two rules are called {name!r}: give each its own name")
        wanted = {channel for rule in self.rules for channel in rule.channels}
        for channel in ("webhook", "alertmanager"):
            if channel in wanted and getattr(self, channel) is None:
                raise ValueError(f"a rule uses the channel {channel}, which is not set")
        if self.enabled and not self.dry_run:
            self._can_mail(wanted)
        try:
            _ = self.zone
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ValueError(f"timezone: there is no {self.timezone!r}") from error
        return self

    def _can_mail(self, wanted: set[Channel]) -> None:
        if self.digest.enabled and (self.mail is None or not (self.admins or self.digest.owners)):
            raise ValueError("a digest needs mail and an address in admins or digest.owners")
        if "mail" in wanted and (self.mail is None or not (self.addresses.template or self.addresses.command)):
            raise ValueError("mail needs mail.host, and addresses.template or addresses.command")
