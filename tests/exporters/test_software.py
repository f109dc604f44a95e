"""What a job runs, taken from texts of users: known by their form, made fit, short, without secrets."""

import pytest

from idlewatt.exporters.software import LONGEST_IMAGE, NOTHING, Software, software


@pytest.mark.parametrize(("image", "texts", "told"), [
    ("nvcr.io/nvidia/pytorch:23.10-py3", (), ("nvcr.io/nvidia/pytorch:23.10-py3", "pytorch", "")),
    ("docker://pytorch/pytorch:2.1-cuda12.1-cudnn8", (), ("pytorch/pytorch:2.1-cuda12.1-cudnn8", "pytorch", "12.1")),
    ("nvcr.io#nvidia/tensorflow:24.01", (), ("nvcr.io/nvidia/tensorflow:24.01", "tensorflow", "")),
    ("ghcr.io/lab/vllm:cu124", (), ("ghcr.io/lab/vllm:cu124", "vllm", "12.4")),
    ("nvidia/cuda:12.2.0-base", (), ("nvidia/cuda:12.2.0-base", "", "12.2")),
    ("", ("framework=jax cuda=12.4.1 image=/images/own.sqsh",), ("/images/own.sqsh", "jax", "12.4")),
    ("", ("ask bob about this one", "gres/gpu=2,gres/cuda:11.8=1"), ("", "", "11.8")),
    ("repo/thing@sha256:abcdef", (), ("repo/thing", "", "")),
    ("docker://alice:secret@registry.example.org/x", (), ("registry.example.org/x", "", "")),
    ("", ("framework=<script> cuda=12;rm",), ("", "", "12")),
])
def test_what_is_known_by_its_form_is_told(image, texts, told):
    assert software(image, *texts) == Software(*told)


@pytest.mark.parametrize("scheme", ["docker://", "docker:///", "//", ""])
@pytest.mark.parametrize("login", ["alice:secret", "alice:p@ss", "alice:p#ss", "alice:p/ss", "alice:p/s#s@s:s", "alice",
                                   ":p@ss", "alice:a@sha256:b", "$oauthtoken"])
@pytest.mark.parametrize(("image", "told"), [
    ("reg.io/img:1", "reg.io/img:1"), ("reg.io#lab/img", "reg.io/lab/img"),
    ("reg.io:5000/img@sha256:0af", "reg.io:5000/img"), ("img@sha512:0AF", "img")])
def test_no_user_and_no_part_of_a_password_is_kept_of_an_image_whatever_the_password_holds(scheme, login, image, told):
    assert software(f"{scheme}{login}@{image}").image == told
    assert software("", f"container={scheme}{login}@{image} framework=jax").image == told


@pytest.mark.parametrize("scheme", ["docker://", "docker:///", "//", ""])
@pytest.mark.parametrize("user", ["alice", "lab/alice", "tenancy/alice@acme.com"])
@pytest.mark.parametrize("password", ["s3c,ret", "s3c;ret", "s3c|ret", "s3c,r@t;x", "s/c,ret", "s3c,ret@sha256:0a,b",
                                      "s3c,mail=r@t.x", ",", "=,="])
def test_no_part_of_a_password_with_a_separator_and_no_image_is_kept_of_a_comment(scheme, user, password):
    for more in ("", ",framework=jax", "@sha256:0af;cuda=12.1", ",mail=ada@lab.io", ";ada@lab.io", " mail ada@lab.io"):
        for image in ("reg.io/img:1", "reg.io#lab/img"):
            assert software("", f"image={scheme}{user}:{password}@{image}{more}").image == ""


@pytest.mark.parametrize("comment", [
    "image=lab/t0k,en@reg.io/x", "image=alice:s3c,cuda=ret@reg.io/x", "image=alice:s3c,mail=ret@reg.io/x",
    "image=alice:s3c,mail=ret@reg.io:5000", "image=alice:s3c,mail=ret@reg.io#x", "image=alice:s3c,mail=ret@img",
    "image=reg.io/x:1,container=alice:s3c@reg.io/y", "image=x:1;ada@lab.io", "image=docker://reg.io/x;ada@lab.io",
    "image=x:1,mail=ada@lab.io,s3c@reg.io/y"])
def test_no_image_is_told_where_a_separator_behind_it_may_be_one_in_a_password(comment):
    assert software("", comment).image == ""


@pytest.mark.parametrize(("comment", "told"), [
    ("image=x:1,mail=ada@lab.io", "x:1"), ("image=reg.io:5000/lab/x:1,mail=ada@lab.io", "reg.io:5000/lab/x:1"),
    ("image=x:1,train;E-Mail:ada.b+c@gpu.lab.io,cuda=12.1", "x:1"), ("image=own.sqsh|contact:ada@lab.io", "own.sqsh"),
    ("image=alice:p@ss@reg.io/x:1,mail=ada@lab.io", "reg.io/x:1"), ("image=alice:s3cret@reg.io/x,cuda=12", "reg.io/x"),
    ("image=/images/own.sqsh,ada@lab.io", "/images/own.sqsh"), ("image=a/b@sha256:0a,container=c@sha256:0b", "a/b"),
    ("container=c,image=a@sha256:0b", "a")])
def test_an_address_with_its_key_behind_an_image_is_no_login(comment, told):
    assert software("", comment).image == told


@pytest.mark.parametrize("long", [201, 5000])
def test_no_part_of_a_password_is_kept_where_a_text_is_too_long(long):
    login = f"alice:{'s' * long}@reg.io/x"
    assert "s" not in software(login).image
    assert "s" not in software("", f"image={login}").image
    assert software("", f"framework=jax {'y' * 4060} image={login}") == Software("", "jax", "")


@pytest.mark.parametrize("path", ["/images/own@v2.sqsh", "/home/ada@lab/a#b.sqsh"])
def test_a_path_on_the_server_is_kept_whole(path):
    assert software(path).image == path


def test_nothing_is_kept_of_a_comment_but_what_is_known_by_its_form():
    assert software("", "my private diary: cudaless pytorchish, barracuda 12") == NOTHING


@pytest.mark.parametrize("hostile", ["\x1b[31mred\x07", "a\u202eb", "x" * 100_000, "<img src=x>\n\n", "\0", "\ud800"])
def test_an_image_of_any_name_is_made_fit_and_short(hostile):
    image = software(hostile).image
    assert len(image) <= LONGEST_IMAGE
    assert image.isprintable()
    assert not any(character.isspace() for character in image)
