"""The fast reader says what prometheus_client's parser says, or refuses."""

import contextlib
import math
import random
import re
import time

import pytest
from cost import slowness
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from idlewatt.exporters import dcgm, gaudi, node
from idlewatt.exporters.exposition import Exposition, Look
from idlewatt.exporters.page_checks import PageError, PageLimits
from idlewatt.exporters.text import clean

WANTED = ("power", "power_limit", "util")
TIMELESS = PageLimits(max_age=1e12)


def stock(page: str):
    """Return the wanted samples by the stock parser; TYPE lines are left out, since they rename counters."""
    page = "".join(line for line in page.splitlines(keepends=True) if not line.strip().startswith("#"))
    return [(sample.name, {name: clean(value) for name, value in sample.labels.items()}, float(sample.value))
            for family in text_string_to_metric_families(page)
            for sample in family.samples if sample.name in WANTED]


def fast(page: str, reader=None):
    samples = (reader or Exposition(WANTED, TIMELESS)).samples(page.encode())
    return [(series.name, series.labels, value) for series, value in samples]


def same(left, right) -> bool:
    return len(left) == len(right) and all(
        a[:2] == b[:2] and (a[2] == b[2] or (math.isnan(a[2]) and math.isnan(b[2])))
        for a, b in zip(left, right, strict=True))


names = st.sampled_from([*WANTED, "power_usage", "other", "utility", "a:b"])
label_values = st.text(st.sampled_from('abc "\\\n{},=#é1'), max_size=6)
labels = st.dictionaries(st.sampled_from(["gpu", "UUID", "Hostname", "le"]), label_values, max_size=3)
values = st.sampled_from(["1", "0.5", "-3", "1e9", "NaN", "+Inf", "-Inf", "Inf", "9223372036854775794", "1_0", "0x1p3"])
spaces = st.sampled_from([" ", "  ", "\t", " \t "])
stamps = st.sampled_from(["", "", "", " 1712345678000", "\t5"])
indents = st.sampled_from(["", "", "", " ", "\t"])
commas = st.sampled_from(["", "", ","])
comments = st.sampled_from(["# HELP power Watts {a=\"b\"} 1", "# TYPE power gauge", "", "#", "# power 3", " # x", "\t"])


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@st.composite
def sample_lines(draw):
    pairs = ",".join(f'{name}="{escaped(value)}"' for name, value in draw(labels).items())
    braces = "{" + pairs + draw(commas) + "}" if pairs else draw(st.sampled_from(["", "{}"]))
    return draw(indents) + draw(names) + braces + draw(spaces) + draw(values) + draw(stamps)


pages = st.lists(sample_lines() | comments, max_size=8).map(lambda lines: "".join(line + "\n" for line in lines))


@settings(max_examples=300, deadline=None)
@given(pages)
@example('power{gpu="0"} 1\npower{gpu="0"} 2\n')
@example("power 1 2\npower\t1\n")
def test_what_the_stock_parser_accepts_is_read_the_same(page):
    try:
        expected = stock(page)
    except ValueError:
        return
    assert same(fast(page), expected)


@settings(max_examples=200, deadline=None)
@given(pages, st.integers(0, 200), st.sampled_from(['"', "{", "}", "\\", " ", "\n", "=", ",", "_", "\x00", "#"]))
def test_a_damaged_page_is_refused_or_read_as_the_stock_parser_reads_it(page, place, damage):
    page = page[:place] + damage + page[place:] + "\n"
    try:
        got = fast(page)
    except PageError:
        return
    try:
        expected = stock(page)
    except ValueError:
        return  # the fault lies in a line that is none of ours
    assert same(got, expected)


@settings(max_examples=50, deadline=None)
@given(st.lists(pages, min_size=2, max_size=4))
def test_what_was_remembered_changes_nothing(several):
    reader = Exposition(WANTED, TIMELESS)
    for page in several:
        try:
            expected = fast(page)
        except PageError:
            continue
        assert same(fast(page, reader), expected)


plain_lines = st.builds(lambda name, gpu, value: f'{name}{{gpu="{gpu}"}} {value}', names, st.integers(0, 3),
                        st.sampled_from(["1", "0.5", "1e9", "NaN"])) | st.sampled_from(
                            ["util 7", "# HELP power {x 1", "# EOF"])
other_lines = plain_lines | sample_lines() | comments | st.sampled_from(
    ["# EOF", "# EOF x", "power1", "power", "power1 5", 'power{gpu="0"}1', "power\t1",
     'power{gpu="0"} 1 2', "util  7", "utility{ 1", "x"])


@settings(max_examples=400, deadline=None)
@given(st.lists(plain_lines, min_size=1, max_size=6), st.lists(st.tuples(st.integers(0, 5), other_lines), max_size=3),
       st.integers(0, 3))
@example(["power 3"], [(0, "power1")], 0)
@example(["power 1", 'power{gpu="0"} 1'], [(1, "power1")], 2)
def test_pages_laid_out_like_those_before_are_read_as_by_a_new_reader(lines, changes, varied):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("idlewatt.exporters.exposition._LEAST_LAID_OUT", 0)
        reader, changed = Exposition(WANTED, TIMELESS), lines.copy()
        for place, line in changes:
            changed[place % len(lines)] = line
        # A page is laid out when it is read for the second time, and its labels vary from the next one on.
        likes = [[line.replace("gpu", f"gpu{like}") for line in lines] for like in range(1 + varied)] * 2
        for page in ("\n".join((*some, "")) for some in (*likes, lines, lines, changed, changed, lines)):
            try:
                expected = fast(page)
            except PageError as fault:
                with pytest.raises(PageError, match="^" + re.escape(str(fault))):
                    fast(page, reader)
            else:
                assert same(fast(page, reader), expected)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(garbage):
    with contextlib.suppress(PageError):
        Exposition(WANTED).samples(garbage)


def test_one_odd_line_among_known_ones_keeps_its_place():
    reader = Exposition(WANTED, TIMELESS)
    plain = [f'power{{gpu="{number}"}} {number}' for number in range(4)]
    reader.samples("\n".join((*plain, "")).encode())
    for odd in ('util{gpu="a\\"b"} 7', 'util{gpu="9"} 7', " util 7", "util 7 1712345678000", "util  7",
                "power_usage 7"):
        page = "\n".join((*plain[:2], odd, *plain[2:], ""))
        assert same(fast(page, reader), stock(page))
    with pytest.raises(PageError, match="not a sample"):
        reader.samples("\n".join((*plain, "util 1_0", "")).encode())


def test_a_page_whose_lines_are_known_is_not_read_line_by_line(monkeypatch):
    reader, page = Exposition(WANTED), b'power{gpu="0"} 26\npower_usage 9\nutil{gpu="0"} 0.5\n'
    first = reader.samples(page)
    monkeypatch.setattr(reader, "_one_by_one", None)
    assert reader.samples(page) == first


@pytest.mark.parametrize("line", [b"power{" + b"} " * 30_000 + b"1 2", b"power " + b"1" * 30_000 + b" x",
                                  b'power{a="' + b"}\" " * 20_000 + b"} 1 2 3"])
def test_a_hostile_line_costs_what_its_length_does(line):
    reader, began = Exposition(WANTED), time.process_time()
    rows = reader._wanted_rows(b"\n" + line + b"\n")
    assert time.process_time() - began < 0.2 * slowness()
    assert rows == [(b"", b"", b"", line)]


@pytest.mark.parametrize("name", ["node_exporter.prom", "dcgm_h100_8gpu_k8s.prom", "ipmi_exporter_1.6.1.prom",
                                  "dcgm_v100_simulated_with_hpc_job.prom"])
def test_recorded_pages_are_read_as_the_stock_parser_reads_them(recorded, name):
    page = recorded(name)
    bare = b"".join(line for line in page.splitlines(keepends=True) if not line.startswith(b"#"))
    expected = [(sample.name, sample.labels, sample.value) for family in text_string_to_metric_families(bare.decode())
                for sample in family.samples]
    reader = Exposition({name for name, _, _ in expected})
    for _ in range(3):
        assert same([(*series, value) for series, value in reader.samples(page)], expected)


@pytest.mark.parametrize(("name", "wanted"), [
    ("node_exporter.prom", node.METRICS), ("dcgm_h100_8gpu_k8s.prom", dcgm.METRICS),
    ("dcgm_v100_simulated_with_hpc_job.prom", dcgm.METRICS), ("gaudi2_hand_written.prom", gaudi.METRICS)])
def test_recorded_pages_with_other_values_and_labels_are_read_as_by_a_new_reader(recorded, name, wanted):
    draw, reader, page = random.Random(1), Exposition(wanted, TIMELESS), recorded(name)

    def other(match):
        return match[1] + draw.choice((b"0", b"17.25", b"1e+09", b"NaN", b"9223372036854775794", b"-1", match[2]))

    for share in 8 * (0.0, 0.0, 0.002, 0.01, 0.0):
        like = re.sub(rb"(\n[^#\n][^\n]* )([^ \n]+)(?=\n)", other, page)
        parts = like.split(b'"')
        for place in range(1, len(parts), 2):
            parts[place] = b"%d" % draw.randrange(5) if draw.random() < share else parts[place]
        like = b'"'.join(parts)
        new = [(*series, value) for series, value in Exposition(wanted, TIMELESS).samples(like)]
        assert same([(*series, value) for series, value in reader.samples(like)], new)


def test_a_page_laid_out_like_others_is_not_taken_apart(monkeypatch):
    reader = Exposition(WANTED)
    pages = [b"".join(b'# HELP x\npower{gpu="%d",node="%d"} %d\nother{a="b"} %d\n' % (gpu, node_, gpu * node_, gpu)
                      for gpu in range(64)) + b"util 5\n" for node_ in range(3)]
    first = [reader.samples(page) for page in pages]
    for page in pages:
        reader.samples(page)
    monkeypatch.setattr(reader, "_wanted_rows", None)
    assert [reader.samples(page) for page in pages] == first


def test_layouts_take_no_more_than_their_share():
    reader = Exposition(WANTED)
    for lines in range(100, 900):
        page = b"".join(b'power{gpu="%d",one="%s"} 1\n' % (gpu, b"x" * 100) for gpu in range(lines))
        for _ in range(2):
            assert len(reader.samples(page)) == lines
    kept = [layout for layout in reader._layouts._known.values() if layout]
    assert sum(layout.size for layout in kept) < 200_000


def test_a_page_with_an_odd_line_is_laid_out_in_vain_once(monkeypatch):
    reader, page = Exposition(WANTED), b"power 1\n\n" + b"# HELP x\n" * 300
    for _ in range(2):
        reader.samples(page)
    monkeypatch.setattr(reader._layouts, "_layout", None)
    assert [value for _, value in reader.samples(page)] == [1.0]


def test_rows_with_the_same_labels_share_them():
    (first, _), (second, _) = Exposition(WANTED).samples(b'power{gpu="0"} 1\nutil{gpu="0"} 2\n')
    assert first.labels is second.labels


@pytest.mark.parametrize(("page", "word"), [
    (b'power{gpu="0"} 26', "cut off"),
    (b'power{gpu="0\n', "not a sample"),
    (b'power{gpu="0"} watt\n', "not a sample"),
    (b"\x00\x01\x02 \xff\n", "not Prometheus"),
    (b"Welcome to this exporter!\n", "not Prometheus"),
    (b"power 1\n# EOF\npower 2\n", "text follows after # EOF"),
    (b'power{gpu="' + b'\\"' * 100_000 + b'"} 1\n', "a line of"),
])
def test_a_malformed_page_is_refused_with_its_place(page, word):
    with pytest.raises(PageError, match=word):
        Exposition(WANTED).samples(page)


@pytest.mark.parametrize("page", [b"", b"\n", b"# HELP other x\nother 1\n"])
def test_a_page_without_our_metrics_is_no_fault(page):
    assert Exposition(WANTED).samples(page) == []


def test_series_that_no_page_shows_any_more_are_forgotten():
    reader = Exposition(WANTED)
    for job in range(2000):
        reader.samples(b'power{hpc_job="%d"} 1\n' % job)
        reader.next_round()
    assert len(reader._known) + len(reader._before) < 500


def test_labels_that_change_with_every_round_do_not_pile_up():
    reader = Exposition(WANTED)
    steady = b"".join(b'power{gpu="%d"} 1\n' % gpu for gpu in range(8))
    for round_ in range(60):
        reader.samples(steady + b"".join(b'power{pod="%d-%d"} 1\n' % (round_, pod) for pod in range(1000)))
        reader.next_round()
    assert len(reader._known) + len(reader._before) < 15_000  # 60,008 series were shown


def test_a_label_that_is_no_utf8_is_read_cleaned():
    page = b'power{job="Gr\xf6\xdfe",pod="a\xed\xa0\xbd\xed\xb8\x80"} 1\npower{job="two\\nlines\x1b[2J"} 2\n'
    assert [series.labels for series, _ in Exposition(WANTED).samples(page)] == [
        {"job": "Gr\ufffd\ufffde", "pod": "a" + 6 * "\ufffd"}, {"job": "two\ufffdlines\ufffd[2J"}]


@pytest.mark.parametrize(("limits", "page", "word"), [
    ({"sample_limit": 2}, b"power 1\n" * 3, "more than 2 samples .*sample_limit"),
    ({"label_limit": 1}, b'power{a="1",b="2"} 1\n', "2 labels.*label_limit"),
    ({"label_limit": 1}, b'power{a="1", b="\\n"} 1\n', "2 labels.*label_limit"),
    ({"label_name_length_limit": 3}, b'power{long="1"} 1\n', "label_name_length_limit"),
    ({"label_value_length_limit": 3}, b'power{a="long"} 1\n', "label_value_length_limit"),
])
def test_a_page_beyond_its_limits_is_refused(limits, page, word):
    with pytest.raises(PageError, match=word):
        Exposition(WANTED, PageLimits(**limits)).samples(page)


def test_a_large_page_has_its_samples_counted_before_they_are_kept():
    page = b'power{gpu="0"} 1\n' * 300_000
    with pytest.raises(PageError, match="sample_limit"):
        Exposition(WANTED).samples(page)


def test_reading_a_page_ends_in_time():
    page = b"".join(b'power{gpu="%d"} 1\n' % number for number in range(1000))
    with pytest.raises(PageError, match="took too long to be read"):
        Exposition(WANTED).samples(page, Look(0.0, due=0.0))


def test_a_sample_is_as_old_as_it_says_itself():
    look = Look(1_000.0)
    page = b'power{gpu="0"} 1 970000\npower{gpu="1"} 2 400000\npower{gpu="2"} 3\npower{gpu="3"} 4 NaN\n'
    found = Exposition(WANTED).samples(page, look)
    assert [series.labels["gpu"] for series, _ in found] == ["0", "2"]
    assert (look.read_s, look.stale) == (970.0, 2)


def test_a_page_may_end_as_openmetrics_does():
    assert len(Exposition(WANTED).samples(b"power 1\n# EOF\n")) == 1
