"""Whether notices can be written as the configuration wants them: rules, and templates rendered once."""

from __future__ import annotations

from ..settings.notices import NoticesSettings
from . import rules
from .texts import Texts


def check(settings: NoticesSettings) -> None:
    """Raise ValueError for rules that nobody knows and templates that cannot be rendered."""
    rules.check(settings)
    if settings.templates is not None:
        if not settings.templates.is_dir():
            raise ValueError(f"templates: {settings.templates} is no folder that can be read")
        Texts(settings.templates, settings.page_url).check()
