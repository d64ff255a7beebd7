from collections import Counter
from pathlib import Path

from cli.devtools import settings_page
from nac.kit.settings import variables


def test_page_matches_the_settings():
    page = settings_page.PAGE
    assert page.path.read_text(encoding="utf-8") == page.render(), f"nac/kit/settings.py has changed: {page.remedy}"


def test_each_setting_is_in_one_group():
    grouped = Counter(name for names in settings_page.GROUPS.values() for name in names)
    assert grouped == Counter(variable.name for variable in variables(Path("/x")))


def test_each_setting_has_a_meaning():
    assert [variable.name for variable in variables(Path("/x")) if not variable.about.endswith(".")] == []
