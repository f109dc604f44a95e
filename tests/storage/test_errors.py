"""How the store names a database for a person."""

import pytest
from sqlalchemy import make_url

from idlewatt.storage.database import fingerprint
from idlewatt.storage.errors import place, without_password

LOGINS = ("u:SECRET", "u:pa/SECRET", "u:p?a/SECRET#", "u:pa:SECRET", "u:p@SECRET", "u@h:SECRET", ":SECRET")


@pytest.mark.parametrize("login", LOGINS)
def test_no_password_in_a_login_is_named(login):
    url = f"postgresql://{login}@h:5432/db?connect_timeout=3"
    user = login.partition(":")[0]
    assert without_password(url) == f"postgresql://{user}:***@h:5432/db?connect_timeout=3"
    assert "SECRET" not in place(make_url(url))


@pytest.mark.parametrize("key", ["password", "sslpassword", "pass%77ord", "oauth_client_secret"])
@pytest.mark.parametrize("rest", ["", "&host=/run/postgresql"])
def test_no_password_in_a_query_is_named(key, rest):
    url = f"postgresql://h:5432/db?user=u&{key}=p@SECRET/=?{rest}"
    assert without_password(url) == f"postgresql://h:5432/db?user=u&{key}=***{rest}"
    assert "SECRET" not in place(make_url(url.replace("@", "%40")))


@pytest.mark.parametrize("url", [
    "sqlite:////var/lib/idlewatt/a:b@c.db?timeout=3", "postgresql://u@h:5432/db?passfile=/root/.pgpass", "postgresql:///db",
    "postgresql://[::1]:5432/db", "postgresql+psycopg://u@/db?host=/run/a@b"])
def test_an_address_without_a_password_is_named_as_it_is(url):
    assert without_password(url) == url


@pytest.mark.parametrize("login", ["u:SECRET", "u:pa/SECRET"])
def test_what_is_named_without_its_password_is_the_same_database(login):
    url = f"postgresql://{login}@h/db?sslpassword=SECRET"
    assert fingerprint(without_password(url)) == fingerprint(url)
