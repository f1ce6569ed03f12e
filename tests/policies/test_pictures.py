"""Pictures as numbers in prompts: named by their pixels, found again, kept and forgotten."""

import copy

import numpy as np
import pytest
import torch

from policies import pictures as module
from policies.pictures import PictureStore
from policies.prompts import FIRST_PICTURE
from policies.vision import image_processor

pytest.importorskip("transformers", minversion="5.23")  # earlier releases are not known to see alike


def store(folder=None, *, patch=8, merge=1):
    size = {"shortest_edge": (patch * merge) ** 2, "longest_edge": 2**16}
    return PictureStore(image_processor(patch_size=patch, merge_size=merge, size=size), folder)


def picture(seed, height=16, width=24):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def test_a_picture_has_one_number_per_placeholder_and_another_picture_has_others():
    pictures = store()
    first, second = pictures.add(picture(0)), pictures.add(picture(1))
    assert (first.height, first.width) == (2, 3)  # 16 x 24 pixels in patches of 8
    assert len(first.ids) == len(set(first.ids)) == 6
    assert all(FIRST_PICTURE <= number < 2 * FIRST_PICTURE for number in first.ids)
    assert not set(first.ids) & set(second.ids)
    assert pictures.add(picture(0)) is first
    assert store().add(picture(0)) == first  # in another process the same
    assert pictures.of(first.ids) is first
    assert pictures.named(second.name) is second


def test_the_same_pixels_in_another_shape_are_another_picture():
    pictures = store()
    assert pictures.add(picture(0).reshape(24, 16, 3)).name != pictures.add(picture(0)).name


def test_four_patches_share_a_placeholder_where_the_model_merges_them():
    pictures = store(merge=2)
    found = pictures.add(picture(0, 32, 16))
    assert (found.height, found.width, pictures.grid(found)) == (2, 1, (1, 4, 2))
    assert pictures.patches(found).shape == (8, 2 * 3 * 8 * 8)  # a still picture is two equal frames


def test_pixels_and_patches_come_back_as_they_were():
    pictures = store()
    found = pictures.add(picture(3))
    assert np.array_equal(pictures.pixels(found), picture(3))
    expected = image_processor(patch_size=8, merge_size=1)(
        images=[picture(3)], size={"shortest_edge": 64, "longest_edge": 2**16}, return_tensors="pt"
    )["pixel_values"]
    assert torch.equal(pictures.patches(found), expected)


@pytest.mark.parametrize("wrong", [np.zeros((4, 4, 3)), np.zeros((4, 4), np.uint8), "a board"])
def test_other_arrays_are_refused(wrong):
    with pytest.raises(TypeError, match=r"a picture is a uint8 array \(height, width, 3\)"):
        store().add(wrong)


def test_an_unknown_picture_is_an_error_that_says_what_to_do():
    with pytest.raises(KeyError, match=r"4 numbers from 2147483648 on.*keep_in\(folder\)"):
        store().of(range(FIRST_PICTURE, FIRST_PICTURE + 4))


def test_a_folder_keeps_pictures_for_the_next_process(tmp_path):
    before = store()
    early = before.add(picture(0))
    before.keep_in(tmp_path)
    late = before.add(picture(1))
    (tmp_path / "notes.txt").write_text("not a picture")
    after = store(tmp_path)
    for known, seed in ((early, 0), (late, 1)):
        assert after.of(known.ids) == known
        assert np.array_equal(after.pixels(known), picture(seed))
        assert torch.equal(after.patches(known), before.patches(known))


def test_what_is_forgotten_is_the_oldest_and_comes_back_when_it_is_shown(monkeypatch):
    monkeypatch.setattr(module, "_MOST_FILES", 3000)  # two files of about 1.2 kB
    monkeypatch.setattr(module, "_MOST_PATCHES", 1)
    pictures = store()
    found = [pictures.add(picture(seed)) for seed in range(3)]
    assert np.array_equal(pictures.pixels(found[2]), picture(2))
    with pytest.raises(KeyError, match="was forgotten"):
        pictures.patches(found[0])
    pictures.add(picture(0))
    assert len(pictures.patches(found[0])) == 6


def test_two_pictures_never_share_their_numbers(monkeypatch):
    monkeypatch.setattr(module.Picture, "ids", (FIRST_PICTURE,))  # as if the hash had failed
    pictures = store()
    pictures.add(picture(0))
    with pytest.raises(ValueError, match="two pictures have the same"):
        pictures.add(picture(1))


def test_a_copied_model_shares_the_store():
    pictures = store()
    assert copy.deepcopy(pictures) is pictures
