import threading
import time

import bcrypt
import pytest

from idlewatt.daemon.web.gate import NOBODY, Passwords, TokenBucket, WebConfigFile
from idlewatt.daemon.web.webconfig import RateLimit, WebConfigError


def hashed(password: str, rounds: int = 4) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(rounds)).decode()


@pytest.fixture(scope="module")
def users() -> dict[str, str]:
    return {"alice": hashed("wonderland")}


def test_right_password_passes_and_wrong_does_not(users):
    passwords = Passwords()
    assert passwords.right(users, "alice", "wonderland")
    assert not passwords.right(users, "alice", "wonderlanD")
    assert not passwords.right(users, "bob", "wonderland")
    assert not passwords.right(users, "", "")


def test_right_answers_are_remembered_and_guesses_do_not_push_them_out(users, monkeypatch):
    asked = []
    real = bcrypt.checkpw
    monkeypatch.setattr(bcrypt, "checkpw", lambda *pair: asked.append(1) or real(*pair))
    passwords = Passwords(remembered=3)
    for guess in range(10):
        assert passwords.right(users, "alice", "wonderland")
        assert not passwords.right(users, "alice", str(guess))
    assert len(asked) == 11


def test_memory_of_right_answers_is_bounded():
    users = {str(number): hashed(str(number)) for number in range(5)}
    passwords = Passwords(remembered=3)
    assert all(passwords.right(users, user, user) for user in users)
    assert len(passwords._right) == 3


def test_scrape_does_not_wait_for_a_guess(users, monkeypatch):
    passwords, guessing, go_on = Passwords(), threading.Event(), threading.Event()
    assert passwords.right(users, "alice", "wonderland")
    monkeypatch.setattr(bcrypt, "checkpw", lambda *pair: guessing.set() or go_on.wait(10) or False)
    guess = threading.Thread(target=passwords.right, args=(users, "alice", "guess"))
    guess.start()
    assert guessing.wait(10)
    assert passwords.right(users, "alice", "wonderland"), "while the guess is still being hashed"
    assert guess.is_alive()
    go_on.set()
    guess.join()


def test_changed_password_is_not_answered_from_memory(users):
    passwords = Passwords()
    assert passwords.right(users, "alice", "wonderland")
    assert not passwords.right({"alice": hashed("other")}, "alice", "wonderland")


def test_unknown_user_costs_as_much_as_a_wrong_password():
    users, passwords = {"alice": hashed("a", rounds=8)}, Passwords()

    def cost(user: str) -> float:
        began = time.process_time()
        for guess in range(5):
            passwords.right(users, user, f"{user}{guess}")
        return time.process_time() - began

    assert 0.5 < cost("nobody") / cost("alice") < 2.0


def test_nobodys_password_is_a_valid_hash():
    assert bcrypt.checkpw(b"x", (NOBODY % "04").encode()) is False


def test_password_longer_than_bcrypt_reads_is_wrong(users):
    exact = "x" * 72
    assert Passwords().right({"eve": hashed(exact)}, "eve", exact)
    assert not Passwords().right({"eve": hashed(exact)}, "eve", exact + "y")


def test_rate_lets_a_burst_through_and_then_one_each_interval():
    now = [0.0]
    rate, limit = TokenBucket(lambda: now[0]), RateLimit(interval="100ms", burst=3)
    assert [rate.allows(limit) for _ in range(5)] == [True, True, True, False, False]
    now[0] = 0.1
    assert [rate.allows(limit) for _ in range(2)] == [True, False]
    now[0] = 1000.0
    assert [rate.allows(limit) for _ in range(4)] == [True, True, True, False]


def test_without_a_limit_everything_passes():
    rate = TokenBucket()
    assert all(rate.allows(RateLimit()) for _ in range(1000))


def test_file_is_read_again_when_it_changes_t13(tmp_path):
    path = tmp_path / "web.yml"
    path.write_text("")
    gate = WebConfigFile(path)
    assert gate.current().basic_auth_users == {}
    path.write_text(f'basic_auth_users: {{alice: "{hashed("a")}"}}')
    assert list(gate.current().basic_auth_users) == ["alice"]


def test_bad_change_is_said_once_and_the_last_good_stays(tmp_path, caplog):
    path = tmp_path / "web.yml"
    path.write_text(f'basic_auth_users: {{alice: "{hashed("a")}"}}')
    gate = WebConfigFile(path)
    path.write_text("nonsense: true")
    for _ in range(3):
        assert list(gate.current().basic_auth_users) == ["alice"]
    path.unlink()
    assert list(gate.current().basic_auth_users) == ["alice"], "a removed file must not open the door"
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]


def test_bad_file_at_the_start_is_an_error(tmp_path):
    (tmp_path / "web.yml").write_text("tls_server_config: {cert_file: no.pem, key_file: no.key}")
    with pytest.raises(WebConfigError, match=r"no\.pem"):
        WebConfigFile(tmp_path / "web.yml")
