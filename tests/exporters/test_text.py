"""Text from outside is fit for people once it is in."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlewatt.exporters.text import clean, decode, described, quoted, without_login


@pytest.mark.parametrize(("raw", "text"), [
    (b"train-vit-large", "train-vit-large"),
    (b"Gr\xf6\xdfe", "Gr\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}e"),
    ("Größe 学习 👩\u200d💻".encode(), "Größe 学习 👩\u200d💻"),
    (b"\xed\xa0\xbd\xed\xb8\x80", 6 * "\N{REPLACEMENT CHARACTER}"),
    (b"a\nb\x1b[2Jc\x00", "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}[2Jc\N{REPLACEMENT CHARACTER}"),
    ("tidy\u00a0\u202enot".encode(), "tidy \N{REPLACEMENT CHARACTER}not"),
])
def test_what_people_read_is_kept_and_the_rest_stands_out(raw, text):
    assert clean(decode(raw)) == text


@given(st.text() | st.text(st.characters(categories=["Cs", "Cc", "Cf", "Zs", "Zl", "Zp"])))
def test_clean_text_is_unicode_on_one_line_of_the_same_length(text):
    cleaned = clean(text)
    assert cleaned.encode().decode() == cleaned
    assert len(cleaned) == len(text)
    assert len(cleaned.splitlines()) <= 1
    assert clean(cleaned) == cleaned


@pytest.mark.parametrize(("value", "words"), [
    (None, "nothing"), (True, "true"), ("a\nb", "'a\\nb'"), (12, "12"), (1.5, "1.5"), ({"set": True}, "an object"),
    ([[]], "a list"), (2**70, "a number beyond reason"), (json.loads("[" * 900 + "]" * 900), "a list")])
def test_a_value_of_json_is_described_without_a_repr(value, words):
    assert described(value) == words


def test_what_is_quoted_is_short_and_ascii():
    assert quoted(b"\xff\x1b" * 100) == ascii("\ufffd\x1b" * 30)


@pytest.mark.parametrize(("address", "shown"), [
    ("https://mon:s3cret@prom:9090/prom", "https://prom:9090/prom"), ("https://mon@prom", "https://prom"),
    ("mon:s3cret@dgx-01:9400", "dgx-01:9400"), ("https://mon:s@3@[::1]:9090", "https://[::1]:9090"),
    ("http://prom/@tenant?match=a@b", "http://prom/@tenant?match=a@b"), ("dgx-01:9400", "dgx-01:9400"), ("", "")])
def test_an_address_is_shown_without_its_login(address, shown):
    assert without_login(address) == shown
