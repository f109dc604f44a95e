"""Mail by SMTP: plain or over TLS, with a password from a file; names of users and jobs never reach a header raw."""

from __future__ import annotations

import logging
import smtplib
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate, getaddresses, make_msgid

from ...exporters.text import clean
from ..settings.notices import MailSettings

log = logging.getLogger(__name__)

LONGEST_SUBJECT = 180
CLOSING, PERMANENT = 421, 500
"""Codes of a server that takes nothing more, after which another attempt is useless."""


class MailError(Exception):
    """The server cannot be reached or takes nothing now; the message says why."""


@dataclass(frozen=True, slots=True)
class Mail:
    """What is sent to one or more addresses."""

    to: tuple[str, ...]
    subject: str
    text: str
    html: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mail."""

    refused: str = ""
    """Why; '' when it was taken."""
    again: bool = False
    """Whether it may be taken later."""


def message(mail: Mail, settings: MailSettings, time_s: float) -> EmailMessage:
    """Return a mail as it is sent: names in its subject are shown in one line, whatever they hold."""
    made = EmailMessage(policy=SMTP)
    made["From"] = settings.sender
    made["To"] = ", ".join(mail.to)
    made["Subject"] = " ".join(clean(mail.subject).split())[:LONGEST_SUBJECT]
    made["Date"] = formatdate(time_s, localtime=True)
    made["Message-ID"] = make_msgid(domain=settings.sender.rpartition("@")[2].strip("<> ") or "idlewatt.invalid")
    made["Auto-Submitted"] = "auto-generated"
    if settings.reply_to:
        made["Reply-To"] = settings.reply_to
    made.set_content(_body(mail.text))
    if mail.html:
        made.add_alternative(mail.html, subtype="html")
    return made


def _body(text: str) -> str:
    return "\n".join(clean(line) for line in text.splitlines()) + "\n"


def send(mails: Sequence[Mail], settings: MailSettings, clock: Callable[[], float],
         done: Callable[[int, Outcome], bool]) -> None:
    """Send mails over one connection; MailError when the server takes no more of them.

    ``done`` gets the index of each mail that was to be sent with what became of it, and whether to go on is what it
    returns.
    """
    try:
        with _connected(settings) as server:
            for number, mail in enumerate(mails):
                if not done(number, _sent(server, mail, settings, clock())):
                    return
    except (OSError, smtplib.SMTPException, ssl.SSLError) as error:
        raise MailError(f"{settings.host}:{settings.port}: {_plain(error)}") from error


def _connected(settings: MailSettings) -> smtplib.SMTP:
    context = ssl.create_default_context(cafile=settings.ca_file) if settings.tls != "none" else None
    if settings.tls == "tls":
        server: smtplib.SMTP = smtplib.SMTP_SSL(settings.host, settings.port, timeout=settings.timeout, context=context)
    else:
        server = smtplib.SMTP(settings.host, settings.port, timeout=settings.timeout)
    try:
        if settings.tls == "starttls":
            server.starttls(context=context)
        if settings.username and settings.password_file is not None:
            server.login(settings.username, settings.password_file.read_text(encoding="utf-8").strip())
    except BaseException:
        server.close()
        raise
    return server


def _sent(server: smtplib.SMTP, mail: Mail, settings: MailSettings, time_s: float) -> Outcome:
    """Send one mail; a full mailbox, or an address that the server cannot take, is one reader's matter only."""
    body: bytes | str
    to = _taken(server, mail.to)
    if not to:
        return Outcome("refused: the server takes only addresses in ASCII (it does not offer SMTPUTF8)")
    try:
        server.send_message(message(replace(mail, to=to), settings, time_s), from_addr=None,
                            to_addrs=[address for _, address in getaddresses(to)])
    except smtplib.SMTPRecipientsRefused as error:
        code, body = next(iter(error.recipients.values()))
    except smtplib.SMTPResponseException as error:
        code, body = error.smtp_code, error.smtp_error
        if isinstance(error, smtplib.SMTPAuthenticationError) \
                or (code < PERMANENT and isinstance(error, smtplib.SMTPSenderRefused)):
            raise
    else:
        return Outcome()
    if code == CLOSING:
        raise MailError(f"{settings.host}:{settings.port}: {code} {_text(body)}")
    server.rset()
    return Outcome(f"refused: {code} {_text(body)}", again=code < PERMANENT)


def _taken(server: smtplib.SMTP, to: Sequence[str]) -> tuple[str, ...]:
    """Return the recipients that a server can be expected to take: others would cost it the mail to all."""
    server.ehlo_or_helo_if_needed()
    if server.has_extn("smtputf8"):
        return tuple(to)
    taken = tuple(address for address in to if all(part.isascii() for _, part in getaddresses([address])))
    if len(taken) < len(to):
        log.warning("an address that is not ASCII is left out: the mail server does not offer SMTPUTF8",
                    extra={"address": ", ".join(address for address in to if address not in taken)})
    return taken


def _plain(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{error.smtp_code} {_text(error.smtp_error)}"
    return clean(" ".join(str(error).split()))[:200] or type(error).__name__


def _text(words: bytes | str) -> str:
    reply = words.decode("utf-8", "replace") if isinstance(words, bytes) else words
    return clean(" ".join(reply.split()))[:160]
