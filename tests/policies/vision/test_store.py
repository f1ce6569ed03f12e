"""Pictures in prompts: their names, their files, and what the model reads."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np
import pytest
import torch

from policies.prompts import FIRST_PICTURE
from policies.vision import store as module
from policies.vision.inputs import picture_runs, rotary_positions
from policies.vision.policy import image_processor
from policies.vision.store import PictureStore
from policies.vision.tiny import tiny_vision_policy
from tests.refusals import refuses

pytest.importorskip("transformers", minversion="5.23")  # earlier releases are not known to see alike

P = FIRST_PICTURE


def store(folder=None, *, patch=8, merge=1):
    size = {"shortest_edge": (patch * merge) ** 2, "longest_edge": 2**16}
    return PictureStore(image_processor(patch_size=patch, merge_size=merge, size=size), folder)


def picture(seed, height=16, width=24):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def test_numbers_of_pictures() -> None:
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
    assert pictures.add(picture(0).reshape(24, 16, 3)).name != first.name
    assert np.array_equal(pictures.pixels(first), picture(0))
    expected = image_processor(patch_size=8, merge_size=1)(
        images=[picture(0)], size={"shortest_edge": 64, "longest_edge": 2**16}, return_tensors="pt"
    )["pixel_values"]
    assert torch.equal(pictures.patches(first), expected)
    assert copy.deepcopy(pictures) is pictures
    refuses(KeyError, "not known here", pictures.of, (*first.ids[:-1], first.ids[-1] ^ 1))
    wanted = range(FIRST_PICTURE, FIRST_PICTURE + 4)
    refuses(KeyError, r"4 numbers from 2147483648 on.*keep_in\(folder\)", store().of, wanted)
    pictures = store(merge=2)
    found = pictures.add(picture(0, 32, 16))
    assert (found.height, found.width, pictures.grid(found)) == (2, 1, (1, 4, 2))
    assert pictures.patches(found).shape == (8, 2 * 3 * 8 * 8)  # a still picture is two equal frames


@pytest.mark.parametrize("wrong", [np.zeros((4, 4, 3)), np.zeros((4, 4), np.uint8), "a board"])
def test_other_arrays_are_refused(wrong):
    refuses(TypeError, r"a picture is a uint8 array \(height, width, 3\)", lambda: store().add(wrong))


def test_positions_by_hand() -> None:
    # Padding on the left, as it is decoded; then two sequences in one row.
    ids = np.array([[0, 0, 3, P, P, 4], [3, P, P, 4, 3, 5]])
    found = rotary_positions(ids, np.array([[0, 0, 0, 1, 2, 3], [0, 1, 2, 3, 0, 1]]), lambda run: (1, len(run)))
    assert found[:, 0].tolist() == [[0, 0, 0, 1, 1, 3], [0, 0, 0, 1, 1, 3], [0, 0, 0, 1, 2, 3]]
    assert found[:, 1].tolist() == [[0, 1, 1, 3, 0, 1], [0, 1, 1, 3, 0, 1], [0, 1, 2, 3, 0, 1]]


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


def test_two_threads_share_a_store(monkeypatch):
    """One plays ahead while the other learns: neither loses what it asked for to what the other shows."""
    monkeypatch.setattr(module, "_MOST_PATCHES", 1)
    pictures = store()
    found = [pictures.add(picture(seed)) for seed in range(2)]
    expected = [pictures.patches(one).clone() for one in found]
    stored, asked = module._Recent.__setitem__, []

    def interrupted(self, key, value):
        stored(self, key, value)
        if not asked:  # the other thread asks at the worst moment, and has to wait its turn
            asked.append(pool.submit(pictures.patches, found[1]))
            wait(asked, timeout=0.1)

    monkeypatch.setattr(module._Recent, "__setitem__", interrupted)
    with ThreadPoolExecutor(1) as pool:
        assert torch.equal(pictures.patches(found[0]), expected[0])
        assert torch.equal(asked[0].result(), expected[1])


def test_without_a_folder_the_oldest_picture_is_forgotten_and_leaves_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "_MOST_FILES", 3000)  # two files of about 1.2 kB
    pictures = store()
    found = [pictures.add(picture(seed)) for seed in range(3)]
    assert [pictures.named(one.name) for one in found] == [None, *found[1:]]
    assert len(pictures._names) == len(pictures._runs) == len(pictures._patches) == 2
    assert np.array_equal(pictures.pixels(found[2]), picture(2))
    refuses(KeyError, "not known here", pictures.of, found[0].ids)
    refuses(KeyError, "was forgotten", pictures.patches, found[0])
    pictures.add(picture(1))  # now it is the latest one
    pictures.add(picture(0))
    assert pictures.named(found[1].name) == found[1]
    assert len(pictures.patches(found[0])) == 6
    kept = store(tmp_path)
    found = [kept.add(picture(seed)) for seed in range(3)]
    assert [kept.of(one.ids) for one in found] == found
    assert np.array_equal(kept.pixels(found[0]), picture(0))
    assert len(pickle.dumps(kept)) < 4000  # no pixels


def test_another_processor_is_an_error_and_no_wrong_picture(tmp_path):
    known = store(tmp_path).add(picture(0, 32, 48))
    assert (known.height, known.width) == (4, 6)
    after = store(tmp_path, merge=2)
    assert after.add(picture(0, 32, 48)) == known
    words = "was shown as 4 x 6 placeholders, and this image processor makes 2 x 3 of it"
    refuses(ValueError, words, after.patches, known)
    late = store(merge=2)
    late.add(picture(0, 32, 48))  # its patches are there when it meets the folder
    late.keep_in(tmp_path)
    refuses(ValueError, r"was shown as 4 x 6 placeholders", lambda: late.patches(late.of(known.ids)))


def test_two_pictures_never_share_their_numbers(monkeypatch):
    monkeypatch.setattr(module.Picture, "ids", (FIRST_PICTURE,))  # as if the hash had failed
    pictures = store()
    pictures.add(picture(0))
    refuses(ValueError, "two pictures have the same", lambda: pictures.add(picture(1)))


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_positions_are_those_of_transformers(family):
    policy = tiny_vision_policy(["a"], seed=0, family=family, layers=1)
    # Pictures of 2 x 3 and 1 x 2 placeholders, told apart by their length, in rows of different words; the last two
    # tokens of the second row are padding.
    shapes = {6: (2, 3), 2: (1, 2)}
    rows = np.array([[4, 5, *[P] * 6, 6, *[P] * 2, 7, 8], [*[P] * 2, 5, 5, *[P] * 6, 9, 0, 0]])
    ids = torch.from_numpy(rows)
    grids = [shapes[end - low] for row in rows for low, end in picture_runs(row)]
    expected, deltas = policy.model.model.get_rope_index(
        ids.masked_fill(ids >= P, policy.model.config.image_token_id),
        mm_token_type_ids=(ids >= P).int(),
        image_grid_thw=torch.tensor([(1, *grid) for grid in grids]),
    )
    found = rotary_positions(rows, np.broadcast_to(np.arange(13), rows.shape), lambda run: shapes[len(run)])
    assert found.tolist() == expected.tolist()
    assert (found[0, :, -1] - 12).tolist() == deltas.flatten().tolist() == [-3, -3]  # 6 are 3, and 2 are 2
