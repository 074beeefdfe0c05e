import io
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps
from pydantic import ValidationError

from dlbench.datasets import _decode, image_folder
from dlbench.errors import UserError

RED, BLUE = (200, 30, 40), (20, 60, 220)


def save(path: Path, color=RED, size=(6, 4), mode="RGB", **keywords) -> Path:
    """Save a picture of one color; size is (width, height) as PIL has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).convert(mode).save(path, **keywords)
    return path


def describe(path, **options):
    return image_folder.describe(image_folder.OPTIONS(path=str(path), **options))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "pictures"


@pytest.fixture
def two(folder):
    """Two classes with two pictures each."""
    for index in range(2):
        save(folder / "a" / f"{index}.png", RED)
        save(folder / "b" / f"{index}.png", BLUE)
    return folder


def test_class_folders(two, prepared):
    arrays = prepared.arrays("image_folder", path=str(two))
    assert arrays.x.shape == (4, 4, 6, 3)
    assert arrays.x.dtype == np.uint8
    assert arrays.y.tolist() == [0, 0, 1, 1]
    assert arrays.class_names == ("a", "b")
    assert arrays.validation_x is None
    assert (arrays.x[0] == RED).all()
    assert (arrays.x[3] == BLUE).all()
    assert arrays.scale == pytest.approx(1 / 255)
    found = describe(two)
    assert (found.num_train, found.num_validation, found.input_shape, found.num_classes) == (4, None, None, 2)


@pytest.mark.parametrize("name", ["test", "val", "validation"])
def test_parts(folder, prepared, name):
    for label, color in {"cat": RED, "dog": BLUE}.items():
        save(folder / "train" / label / "1.png", color)
        save(folder / "train" / label / "2.png", color)
    save(folder / name / "dog" / "1.png", BLUE)
    save(folder / "extra" / "1.png", BLUE)
    entry = prepared.entry("image_folder", path=str(folder))
    arrays = prepared.arrays("image_folder", path=str(folder))
    assert arrays.y.tolist() == [0, 0, 1, 1]
    assert arrays.validation_y.tolist() == [1]
    assert (arrays.validation_x == BLUE).all()
    assert entry.meta.content.notes["ignored_folders"] == ["extra"]
    found = describe(folder, image_size=(4, 6))
    assert (found.num_train, found.num_validation, found.input_shape, found.num_classes) == (4, 1, (4, 6, 3), 2)


def test_a_validation_part_is_preferred_to_a_test_part(folder):
    for part, num in {"train": 3, "val": 2, "test": 1}.items():
        for index in range(num):
            save(folder / part / "a" / f"{index}.png")
            save(folder / part / "b" / f"{index}.png")
    assert describe(folder).num_validation == 4


def test_train_among_other_classes_is_a_class(folder):
    for name in ("bus", "car", "train"):
        save(folder / name / "1.png")
    assert describe(folder).num_classes == 3


def test_train_alone_is_the_training_part(folder):
    save(folder / "train" / "a" / "1.png")
    save(folder / "train" / "b" / "1.png")
    found = describe(folder)
    assert (found.num_train, found.num_validation, found.num_classes) == (2, None, 2)


def test_odd_names_nested_folders_and_what_is_no_picture(folder, prepared):
    save(folder / "고양이 (a)" / "x.JPG", format="JPEG")
    save(folder / "고양이 (a)" / "deep er" / "사진 'q' \n.jpeg")
    save(folder / "b" / "y.PNG")
    (folder / "b" / "notes.txt").write_text("no picture")
    (folder / "b" / ".hidden.png").write_text("no picture")
    (folder / ".git").mkdir()
    entry = prepared.entry("image_folder", path=str(folder))
    assert entry.meta.content.num_samples("train") == 3
    assert entry.meta.content.class_names == ("b", "고양이 (a)")
    assert entry.meta.content.notes["ignored_files"] == 2


def test_a_name_that_is_no_text(folder, prepared):
    save(folder / "a" / "1.png")
    odd = os.fsencode(folder) + b"/\xff\xfe"
    try:
        os.mkdir(odd)  # noqa: PTH102  # a path of bytes
    except OSError:
        pytest.skip("this file system takes only text as names")
    save(Path(os.fsdecode(odd)) / "1.png")
    assert prepared.entry("image_folder", path=str(folder)).meta.content.class_names == ("a", "\ufffd\ufffd")


def test_links_are_followed_but_not_in_circles(two, tmp_path, prepared):
    (tmp_path / "linked").mkdir()
    for name in ("a", "b"):
        (tmp_path / "linked" / name).symlink_to(two / name)
    (two / "a" / "circle").symlink_to(two / "a")
    assert describe(tmp_path / "linked").num_train == 4


@pytest.mark.parametrize("mode", ["L", "P", "1", "CMYK", "LA", "RGBA", "I;16"])
def test_every_mode_becomes_rgb(folder, prepared, mode):
    kind = "jpg" if mode == "CMYK" else "png"
    color = (255, 255, 255) if mode == "1" else (102, 102, 102)
    path = folder / "a" / f"1.{kind}"
    if mode == "I;16":
        path.parent.mkdir(parents=True)
        Image.fromarray(np.full((4, 6), 102 * 257, np.uint16)).save(path)
    else:
        save(path, color, mode=mode)
    save(folder / "b" / "1.png", color)
    x = prepared.arrays("image_folder", path=str(folder)).x.astype(int)
    assert np.abs(x[0] - x[1]).max() <= 3


@pytest.mark.parametrize("color", ["rgb", "grayscale"])
@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_parts_are_white(folder, prepared, mode, color):
    image = Image.new("RGBA", (6, 4), (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), (0, 0, 3, 4))
    (folder / "a").mkdir(parents=True)
    image.convert(mode).save(folder / "a" / "1.png")
    save(folder / "b" / "1.png")
    x = prepared.arrays("image_folder", path=str(folder), color=color).x[0]
    assert (x[:, :3] == 0).all()
    assert (x[:, 3:] == 255).all()


def test_grayscale(two, prepared):
    arrays = prepared.arrays("image_folder", path=str(two), color="grayscale")
    assert arrays.x.shape == (4, 4, 6, 1)
    assert arrays.x[0, 0, 0, 0] == round(0.299 * RED[0] + 0.587 * RED[1] + 0.114 * RED[2])
    assert describe(two, color="grayscale", image_size=(2, 3)).input_shape == (2, 3, 1)


def test_exif_orientation_is_applied(folder, prepared):
    pixels = np.zeros((4, 6, 3), np.uint8)
    pixels[:2] = 255
    image = Image.fromarray(pixels)
    exif = Image.Exif()
    exif[0x0112] = 6
    (folder / "a").mkdir(parents=True)
    image.save(folder / "a" / "1.png", exif=exif)
    save(folder / "b" / "1.png", size=(4, 6))
    arrays = prepared.arrays("image_folder", path=str(folder))
    assert arrays.x.shape == (2, 6, 4, 3)
    assert (arrays.x[0][:, 2:] == 255).all()
    assert (arrays.x[0][:, :2] == 0).all()


def test_mixed_sizes_are_resized_bilinearly_or_refused(folder, prepared):
    save(folder / "a" / "1.png", size=(6, 4))
    gradient = Image.linear_gradient("L").convert("RGB").resize((12, 9))
    (folder / "b").mkdir()
    gradient.save(folder / "b" / "1.png")
    with pytest.raises(UserError, match=r"b/1.png' is 9 x 12, not 4 x 6") as caught:
        prepared.entry("image_folder", path=str(folder))
    assert "dataset.image_size" in caught.value.hint
    entry = prepared.entry("image_folder", path=str(folder), image_size=[5, 3])
    arrays = prepared.arrays("image_folder", path=str(folder), image_size=[5, 3])
    assert arrays.x.shape == (2, 5, 3, 3)
    assert np.array_equal(arrays.x[1], np.asarray(gradient.resize((3, 5), Image.Resampling.BILINEAR)))
    assert "bilinear" in entry.meta.content.notes["resize"]


def broken_pictures(folder):
    """Write one of each kind of damage; return their names."""
    good = save(folder / "a" / "good.jpg", size=(64, 64)).read_bytes()
    png = io.BytesIO()
    Image.effect_noise((64, 64), 90).convert("RGB").save(png, "PNG")
    gif = io.BytesIO()
    Image.new("L", (64, 64)).save(gif, "GIF")
    broken = {
        "cut.jpg": good[: len(good) // 2],
        "cut.png": png.getvalue()[:600],
        "empty.jpg": b"",
        "text.png": b"this is text",
        "gif.png": gif.getvalue(),
        "header.jpg": good[:20],
    }
    for name, content in broken.items():
        (folder / "a" / name).write_bytes(content)
    save(folder / "b" / "good.png", size=(64, 64))
    return list(broken)


@pytest.mark.parametrize("options", [{}, {"image_size": [8, 8]}])
def test_damaged_pictures_are_all_named_at_once(folder, prepared, options):
    names = broken_pictures(folder)
    with pytest.raises(UserError) as caught:
        prepared.entry("image_folder", path=str(folder), **options)
    for name in names:
        assert f"a/{name}'" in str(caught.value)
    assert "good" not in str(caught.value)
    assert "6 of the pictures" in str(caught.value)
    assert [path for path in prepared.cache.iterdir() if not path.name.endswith(".lock")] == []


def test_of_many_damaged_pictures_ten_are_named_and_all_counted(two, prepared):
    for index in range(25):
        (two / "a" / f"broken-{index:02}.jpg").write_bytes(b"broken")
    with pytest.raises(UserError, match="25 of the pictures") as caught:
        prepared.entry("image_folder", path=str(two))
    assert str(caught.value).count("broken-") == 10
    assert "15 more" in str(caught.value)


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_random_damage_is_decoded_or_named(folder, kind):
    random = np.random.default_rng(0)
    stream = io.BytesIO()
    Image.effect_noise((16, 16), 90).convert("RGB").save(stream, kind)
    good = np.frombuffer(stream.getvalue(), np.uint8)
    folder.mkdir()
    paths = [folder / f"{index}.{kind.lower()}" for index in range(200)]
    for path in paths:
        bad = good.copy()
        bad[random.integers(0, len(good), 3)] = random.integers(0, 256, 3)
        path.write_bytes(bad[: random.integers(1, len(good) + 1)].tobytes())
    found = list(_decode.decode_all(paths, _decode.Form(16, 16, "rgb", resize=True)))
    failures = [failure for decoded in found for failure in decoded.failures]
    assert sum(len(decoded.positions) for decoded in found) + len(failures) == 200
    assert all(failure.reason for failure in failures)
    assert failures


def test_pictures_keep_their_order_over_many_tasks(folder, prepared, monkeypatch):
    monkeypatch.setattr(_decode, "TASK_FILES", 3)
    for label in range(2):
        for index in range(40):
            save(folder / str(label) / f"{index:02}.png", (index, label, 0))
    arrays = prepared.arrays("image_folder", path=str(folder))
    assert arrays.x[:, 0, 0, 0].tolist() == [*range(40), *range(40)]
    assert arrays.x[:, 0, 0, 1].tolist() == arrays.y.tolist()


def test_limit_per_class_is_a_fixed_subset(folder, prepared):
    for label in range(2):
        for index in range(30):
            save(folder / str(label) / f"{index:02}.png", (index, label, 0))
    first, again, other = (
        prepared.arrays("image_folder", path=str(folder), limit_per_class=8, seed=seed).x[:, 0, 0, 0].tolist()
        for seed in (0, 0, 1)
    )
    assert first == again != other
    assert len(first) == 16
    assert first[:8] == sorted(first[:8]) != list(range(8))
    assert describe(folder, limit_per_class=8).num_train == 16
    assert describe(folder, limit_per_class=99).num_train == 60


def test_a_changed_new_or_removed_picture_is_prepared_anew(two, prepared):
    seen = [prepared.entry("image_folder", path=str(two))]
    assert prepared.entry("image_folder", path=str(two)) == seen[0]
    save(two / "a" / "0.png", BLUE)
    seen.append(prepared.entry("image_folder", path=str(two)))
    save(two / "a" / "2.png", BLUE)
    seen.append(prepared.entry("image_folder", path=str(two)))
    (two / "a" / "2.png").rename(two / "b" / "2.png")
    seen.append(prepared.entry("image_folder", path=str(two)))
    assert len({entry.folder for entry in seen}) == 4
    assert len({entry.meta.checksum for entry in seen}) == 4


def test_a_relative_path_counts_from_the_folder_dlbench_is_started_in(two, prepared, monkeypatch):
    monkeypatch.chdir(two.parent)
    entry = prepared.entry("image_folder", path="pictures")
    assert entry == prepared.entry("image_folder", path=str(two))
    assert entry.meta.identity["path"] == str(two)


def nothing(folder):
    pass


def a_file(folder):
    folder.write_text("no folder")


def empty(folder):
    folder.mkdir()


def no_classes(folder):
    save(folder / "1.png")


def one_class(folder):
    save(folder / "a" / "1.png")


def empty_class(folder):
    save(folder / "a" / "1.png")
    (folder / "empty one").mkdir()


def empty_test(folder):
    save(folder / "train" / "a" / "1.png")
    save(folder / "train" / "b" / "1.png")
    (folder / "test" / "a").mkdir(parents=True)


def unknown_class(folder):
    save(folder / "train" / "a" / "1.png")
    save(folder / "train" / "b" / "1.png")
    save(folder / "test" / "c" / "1.png")


def dead_link(folder):
    save(folder / "a" / "1.png")
    save(folder / "b" / "1.png")
    (folder / "b" / "2.png").symlink_to("nowhere.png")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (nothing, "No such file"),
        (a_file, "Not a directory"),
        (empty, "no class folders"),
        (no_classes, "no class folders"),
        (one_class, "only class folder"),
        (empty_class, "class folders 'empty one'"),
        (empty_test, "no JPEG or PNG"),
        (unknown_class, "no class 'c'"),
        (dead_link, "cannot read"),
    ],
)
def test_what_is_no_data_set_is_said_before_and_at_preparing(folder, prepared, make, message):
    make(folder)
    with pytest.raises(UserError, match=message):
        describe(folder)
    with pytest.raises(UserError, match=message):
        prepared.entry("image_folder", path=str(folder))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"path": ""},
        {"path": "x", "image_size": [0, 1]},
        {"path": "x", "image_size": 32},
        {"path": "x", "image_size": [32, 32, 3]},
        {"path": "x", "image_size": [True, 32]},
        {"path": "x", "image_size": [32, 10**6]},
        {"path": "x", "color": "bgr"},
        {"path": "x", "limit_per_class": 0},
    ],
)
def test_impossible_options_are_refused(options):
    with pytest.raises(ValidationError):
        image_folder.OPTIONS.model_validate(options)


def test_cmyk_of_a_jpeg_is_as_pillow_shows_it(folder, prepared):
    path = save(folder / "a" / "1.jpg", RED, mode="CMYK")
    save(folder / "b" / "1.png")
    with Image.open(path) as image:
        expected = np.asarray(ImageOps.exif_transpose(image).convert("L"))
    found = prepared.arrays("image_folder", path=str(folder), color="grayscale").x[0, ..., 0]
    assert np.array_equal(found, expected)
