from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.exporters.hostlist import MAX_HOSTS, expand, ranges


@pytest.mark.parametrize(("hostlist", "names"), [
    ("", ()),
    ("(null)", ()),
    ("None assigned", ()),
    ("login1", ("login1",)),
    ("dgx-a100-[01-02,07],login1", ("dgx-a100-01", "dgx-a100-02", "dgx-a100-07", "login1")),
    ("r[1-2]n[08-10]", ("r1n08", "r1n09", "r1n10", "r2n08", "r2n09", "r2n10")),
    ("n[9-11].example.com", ("n9.example.com", "n10.example.com", "n11.example.com")),
])
def test_a_host_list_stands_for_its_names(hostlist, names):
    assert expand(hostlist) == names


@given(st.sets(st.integers(0, 99), min_size=1), st.integers(1, 2))
def test_ranges_stand_for_their_numbers(numbers, width):
    written = expand(f"n[{ranges(sorted(numbers), width)}]")

    assert [int(name[1:]) for name in written] == sorted(numbers)


def test_the_order_given_is_kept_as_gpu_indexes_come_in_it():
    assert expand("b2,a[3,1]") == ("b2", "a3", "a1")


@pytest.mark.parametrize("hostlist", ["a[1", "a]1[", "a[x-y]", "a[5-1]", "a,,b", "a[]"])
def test_what_is_no_host_list_is_refused(hostlist):
    with pytest.raises(ValueError, match="host list|range"):
        expand(hostlist)


@pytest.mark.parametrize("hostlist", ["n[0-999999999]", "a[0-60000]b[0-60000]", ",".join(["n[0-60000]"] * 3),
                                      "n[" + ",".join(["0-60000"] * 1000) + "]"])
def test_a_list_without_bound_is_refused_before_it_fills_the_memory(hostlist):
    with pytest.raises(ValueError, match=str(MAX_HOSTS)):
        expand(hostlist)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 9999), min_size=1, max_size=20), st.integers(1, 5))
def test_every_number_comes_back_with_its_zeros(numbers, width):
    assert expand("n[" + ",".join(f"{number:0{width}}" for number in numbers) + "]") \
        == tuple(f"n{number:0{width}}" for number in numbers)


@settings(max_examples=100)
@given(st.text(alphabet="ab[]0123456789-, ", max_size=30))
def test_any_text_is_expanded_within_the_bound_or_refused(text):
    with suppress(ValueError):
        assert len(expand(text)) <= MAX_HOSTS
