import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.exporters.slurm.gres import Gpus, Tres, parse_gres, parse_indexes, parse_memory, parse_tres

GIB = 2**30


@pytest.mark.parametrize(("text", "gpus"), [
    ("gpu:a100:8(S:0-1)", Gpus(8, "a100")),
    ("gpu:8", Gpus(8)),
    ("gpu:a100:2(IDX:0,3-4)", Gpus(2, "a100", (0, 3, 4))),
    ("gpu:a100:0(IDX:N/A)", Gpus(0, "a100", ())),
    ("gpu:(null):8(IDX:0-7)", Gpus(8, "", tuple(range(8)))),
    ("gpu:(null):0(IDX:N/A)", Gpus(0, "", ())),
    ("gres/gpu:(null):2(IDX:1,3),gpu:a100:1(IDX:5)", Gpus(3, "a100", (1, 3, 5))),
    ("(null)", Gpus()),
    ("", Gpus()),
    ("gpu:1g.5gb:7", Gpus(7, "1g.5gb")),
    ("gpu:a100:2(IDX:0-1),gpu:v100:1(IDX:4),nvme:1", Gpus(3, "a100", (0, 1, 4))),
    ("gres:gpu:a100:2", Gpus(2, "a100")),
    ("gres/gpu:a100:2", Gpus(2, "a100")),
    ("gres:gpu", Gpus(1)),
    ("gpu:a100", Gpus(1, "a100")),
    ("shard:80,mps:200(50/200,0/200)", Gpus()),
])
def test_t37_every_form_of_a_gres_is_read(text, gpus):
    assert parse_gres(text) == gpus


@pytest.mark.parametrize(("text", "tres"), [
    ("cpu=64,mem=62.50G,node=2,billing=64,gres/gpu=8,gres/gpu:a100=8",
     Tres(64, int(62.5 * GIB), 2, Gpus(8, "a100"))),
    ("gres/gpu:a100=4", Tres(gpus=Gpus(4, "a100"))),
    ("cpu=1,mem=1000M,node=1", Tres(1, 1000 * 2**20, 1)),
    ("gres/gpu=3,gres/gpu:1g.5gb=2,gres/gpu:2g.10gb=1", Tres(gpus=Gpus(3, "1g.5gb"))),
    ("", Tres()),
    ("(null)", Tres()),
])
def test_t37_every_form_of_a_tres_is_read_and_what_it_does_not_name_is_none(text, tres):
    assert parse_tres(text) == tres


def test_t38_uuids_in_place_of_indexes_leave_the_count_known_and_the_indexes_unknown():
    assert parse_gres("gpu:a100:2(IDX:GPU-1a2b,GPU-3c4d)") == Gpus(2, "a100", None)
    assert parse_indexes("MIG-7d3e") is None


@pytest.mark.parametrize(("text", "size"), [("1", 2**20), ("4000M", 4000 * 2**20), ("1.5T", int(1.5 * 2**40)),
                                            ("120Gn", 120 * GIB), ("4Gc", 4 * GIB)])
def test_memory_without_a_unit_is_mebibytes(text, size):
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["cpu=many", "mem=1e9", "gres/gpu=999999999", "node=-1x"])
def test_an_amount_that_is_no_number_is_refused(text):
    with pytest.raises(ValueError):
        parse_tres(text)


def test_a_gres_of_a_megabyte_is_refused():
    with pytest.raises(ValueError, match="characters"):
        parse_gres("gpu:(" * 200_000)


@settings(max_examples=60)
@given(st.sets(st.integers(0, 255), max_size=16))
def test_the_indexes_written_are_the_indexes_read(indexes):
    text = f"gpu:a100:{len(indexes)}(IDX:{','.join(map(str, sorted(indexes))) or 'N/A'})"
    assert parse_gres(text) == Gpus(len(indexes), "a100", tuple(sorted(indexes)))
