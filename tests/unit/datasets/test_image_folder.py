import io
import os
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError

from dlbench.datasets import _image_decoding, image_folder
from dlbench.errors import UserError

RED, BLUE = (200, 30, 40), (20, 60, 220)


def save(path: Path, color=RED, size=(6, 4), mode="RGB", **keywords) -> Path:
    """Save an image of one color; size is (width, height) as PIL has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).convert(mode).save(path, **keywords)
    return path


def describe(path, **options):
    return image_folder.describe(image_folder.OPTIONS(path=str(path), **options))


def verified(folder, **options) -> str:
    try:
        return image_folder.verify(image_folder.OPTIONS(path=str(folder), **options))
    except UserError as error:
        return str(error)


def sizes(path, **options):
    found = describe(path, **options)
    return found.num_train, found.num_validation, found.input_shape, found.num_classes


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "images"


@pytest.fixture
def two(folder):
    """Two classes with two images each."""
    for index in range(2):
        save(folder / "a" / f"{index}.png", RED)
        save(folder / "b" / f"{index}.png", BLUE)
    return folder


def test_class_folders(two, prepared):
    arrays = prepared.arrays("image_folder", path=str(two))
    assert (arrays.x.shape, arrays.x.dtype) == ((4, 4, 6, 3), np.uint8)
    assert arrays.y.tolist() == [0, 0, 1, 1]
    assert arrays.class_names == ("a", "b")
    assert arrays.validation_x is None
    assert (arrays.x[0] == RED).all()
    assert (arrays.x[3] == BLUE).all()
    assert arrays.scale == pytest.approx(1 / 255)
    assert sizes(two) == (4, None, (4, 6, 3), 2)
    grey = prepared.arrays("image_folder", path=str(two), color="grayscale")
    assert grey.x.shape == (4, 4, 6, 1)
    assert grey.x[0, 0, 0, 0] == round(0.299 * RED[0] + 0.587 * RED[1] + 0.114 * RED[2])
    assert describe(two, color="grayscale", image_size=(2, 3)).input_shape == (2, 3, 1)


def test_parts(folder, prepared):
    for label, color in {"cat": RED, "dog": BLUE}.items():
        save(folder / "train" / label / "1.png", color)
        save(folder / "train" / label / "2.png", color)
    save(folder / "test" / "dog" / "1.png", BLUE)
    save(folder / "extra" / "1.png", BLUE)
    arrays = prepared.arrays("image_folder", path=str(folder))
    assert (arrays.y.tolist(), arrays.validation_y.tolist()) == ([0, 0, 1, 1], [1])
    assert (arrays.validation_x == BLUE).all()
    notes = prepared.entry("image_folder", path=str(folder)).meta.content.notes
    assert notes["ignored_folders"] == ["extra"]
    assert sizes(folder, image_size=(4, 6)) == (4, 1, (4, 6, 3), 2)


def test_odd_names_nested_folders_and_files_that_are_not_images(folder, prepared):
    save(folder / "고양이 (a)" / "x.JPG", format="JPEG")
    save(folder / "고양이 (a)" / "deep er" / "사진 'q' \n.jpeg")
    save(folder / "b" / "y.PNG")
    (folder / "b" / "notes.txt").write_text("not an image")
    (folder / "b" / ".hidden.png").write_text("not an image")
    (folder / ".git").mkdir()
    content = prepared.entry("image_folder", path=str(folder)).meta.content
    assert content.arrays["x"].shape[0] == 3
    assert content.class_names == ("b", "고양이 (a)")
    assert content.notes["ignored_files"] == 1


def test_a_name_that_is_not_text(folder, prepared):
    save(folder / "a" / "1.png")
    odd = os.fsencode(folder) + b"/\xff\xfe"
    try:
        os.mkdir(odd)  # noqa: PTH102  # a path of bytes
    except OSError:
        pytest.skip("this file system takes only text as names")
    save(Path(os.fsdecode(odd)) / "1.png")
    assert prepared.entry("image_folder", path=str(folder)).meta.content.class_names == ("a", "\ufffd\ufffd")


def test_links_are_followed_but_not_in_circles(two, tmp_path):
    (tmp_path / "linked").symlink_to(two)
    (two / "a" / "circle").symlink_to(two / "a")
    assert describe(tmp_path / "linked").num_train == 4


def test_every_mode_becomes_rgb(folder, prepared):
    modes = ("L", "P", "LA", "RGBA", "RGB", "1")
    for mode in modes:
        save(folder / mode / "1.png", (255, 255, 255) if mode == "1" else (102, 102, 102), mode=mode)
    save(folder / "CMYK" / "1.jpg", (102, 102, 102), mode="CMYK")
    Image.fromarray(np.full((4, 6), 102 * 257, np.uint16)).save(save(folder / "I;16" / "1.png"))
    arrays = prepared.arrays("image_folder", path=str(folder))
    assert len(arrays.class_names) == 8
    for mode, x in zip(arrays.class_names, arrays.x.astype(int), strict=True):
        assert np.abs(x - (255 if mode == "1" else 102)).max() <= 3, mode


def test_transparent_parts_are_white(folder, prepared):
    image = Image.new("RGBA", (6, 4), (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), (0, 0, 3, 4))
    for name, mode in (("a", "RGBA"), ("b", "LA"), ("c", "P")):
        save(folder / name / "1.png")
        image.convert(mode).save(folder / name / "1.png")
    for color in ("rgb", "grayscale"):
        x = prepared.arrays("image_folder", path=str(folder), color=color).x
        assert (x[:, :, :3] == 0).all(), color
        assert (x[:, :, 3:] == 255).all(), color


def test_exif_orientation_is_applied(folder, prepared):
    pixels = np.zeros((4, 6, 3), np.uint8)
    pixels[:2] = 255
    exif = Image.Exif()
    exif[0x0112] = 6
    (folder / "a").mkdir(parents=True)
    Image.fromarray(pixels).save(folder / "a" / "1.png", exif=exif)
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
    assert "set `dataset.image_size" in verified(folder)
    assert verified(folder, image_size=[4, 4]).endswith("x/255; 2 of 2 images were decoded")
    arrays = prepared.arrays("image_folder", path=str(folder), image_size=[5, 3])
    assert arrays.x.shape == (2, 5, 3, 3)
    assert np.array_equal(arrays.x[1], np.asarray(gradient.resize((3, 5), Image.Resampling.BILINEAR)))
    notes = prepared.entry("image_folder", path=str(folder), image_size=[5, 3]).meta.content.notes
    assert "bilinear" in notes["resize"]


def test_images_that_cannot_be_used_are_named_at_once_before_as_at_preparing(folder, prepared, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 4_400)  # twice as many are refused
    good = save(folder / "a" / "good.jpg", size=(64, 64)).read_bytes()
    first = save(folder / "a" / "cut.jpg", size=(60, 70)).read_bytes()  # gives the others no size
    save(folder / "b" / "good.png", size=(64, 64))
    png, gif = io.BytesIO(), io.BytesIO()
    Image.effect_noise((64, 64), 90).convert("RGB").save(png, "PNG")
    Image.new("L", (64, 64)).save(gif, "GIF")
    broken = {
        "cut.jpg": first[:-40],
        "cut.png": png.getvalue()[:600],
        "empty.jpg": b"",
        "text.png": b"this is text",
        "gif.png": gif.getvalue(),
        "header.jpg": good[:20],
    }
    for name, content in broken.items():
        (folder / "a" / name).write_bytes(content)
    os.mkfifo(folder / "a" / "pipe.png")
    save(folder / "a" / "huge.png", size=(90, 100))
    for options in ({}, {"image_size": [8, 8]}):
        with pytest.raises(UserError, match="8 of the images") as caught:
            prepared.entry("image_folder", path=str(folder), **options)
        message = str(caught.value)
        assert [name for name in broken if f"a/{name}'" not in message] == []
        assert "good" not in message
        assert re.search(r"pipe\.png.* it is a pipe or a device", message)
        assert re.search(r"huge\.png.* is too large: .*9000 pixels", message)
        assert prepared.left() == []
        assert verified(folder, **options) == message.removeprefix("data set 'image_folder': ")
    for index in range(9):
        (folder / "a" / f"more-{index}.jpg").write_bytes(b"broken")
    assert "7 more" in verified(folder)


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
    found = list(_image_decoding.decode_all(paths, _image_decoding.Form(16, 16, "rgb", resize=True)))
    assert sum(len(pixels) for pixels, _ in found) == 200
    failures = [failure for _, failed in found for failure in failed]
    assert 0 < len({failure.path for failure in failures}) == len(failures) <= 200
    assert all(failure.reason for failure in failures)


def numbered(folder, num):
    """Save images of two classes whose colors are their numbers."""
    for label in range(2):
        for index in range(num):
            save(folder / str(label) / f"{index:02}.png", (index, label, 0))


def test_images_keep_their_order_over_many_tasks(folder, prepared, monkeypatch):
    monkeypatch.setattr(_image_decoding, "TASK_FILES", 3)
    numbered(folder, 40)
    arrays = prepared.arrays("image_folder", path=str(folder))
    assert arrays.x[:, 0, 0, 0].tolist() == [*range(40), *range(40)]
    assert arrays.x[:, 0, 0, 1].tolist() == arrays.y.tolist()


def test_limit_per_class_is_a_fixed_subset(folder, prepared):
    numbered(folder, 30)
    first, again, other = (
        prepared.arrays("image_folder", path=str(folder), limit_per_class=8, seed=seed).x[:, 0, 0, 0].tolist()
        for seed in (0, 0, 1)
    )
    assert first == again != other
    assert len(first) == 16
    assert first[:8] == sorted(first[:8]) != list(range(8))
    assert describe(folder, limit_per_class=8).num_train == 16
    assert describe(folder, limit_per_class=99).num_train == 60


def test_a_changed_new_or_moved_image_is_prepared_again(two, prepared):
    seen = [prepared.entry("image_folder", path=str(two))]
    assert prepared.entry("image_folder", path=str(two)) == seen[0]
    for change in (
        lambda: save(two / "a" / "0.png", BLUE),
        lambda: save(two / "a" / "2.png", BLUE),
        lambda: (two / "a" / "2.png").rename(two / "b" / "2.png"),
    ):
        change()
        seen.append(prepared.entry("image_folder", path=str(two)))
    assert len({entry.folder for entry in seen}) == 4
    assert len({entry.meta.checksum for entry in seen}) == 4


def test_a_relative_path_counts_from_the_folder_dlbench_is_started_in(two, prepared, monkeypatch):
    monkeypatch.chdir(two.parent)
    entry = prepared.entry("image_folder", path="images")
    assert entry == prepared.entry("image_folder", path=str(two))
    assert entry.meta.identity["path"] == str(two)


def test_what_is_not_a_data_set_is_reported(two, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "empty").mkdir()
    (two / "b" / "2.png").symlink_to("nowhere.png")
    for path, message in (
        (tmp_path / "nothing", "(?s)No such file.*is relative to the folder"),
        (tmp_path / "file", "Not a directory"),
        (tmp_path / "empty", "no class folders"),
        (two, "(?s)cannot read.*a link may lead nowhere"),
    ):
        with pytest.raises(UserError, match=message):
            describe(path)


def test_impossible_options_are_refused():
    for options in (
        {},
        {"path": ""},
        {"path": "x", "image_size": [32, 32, 3]},
        {"path": "x", "image_size": [32, 10**6]},
    ):
        with pytest.raises(ValidationError):
            image_folder.OPTIONS.model_validate(options)


def test_an_archive_in_the_folders_place_is_named_with_the_command_that_unpacks_it(tmp_path):
    (tmp_path / "my pets.tar.xz").touch()
    (tmp_path / "other.zip").touch()
    for path, command in (
        ("my pets", f"tar -xf '{tmp_path}/my pets.tar.xz' -C {tmp_path}"),
        ("other.zip", f"unzip -q {tmp_path}/other.zip -d {tmp_path}"),
        ("elsewhere", "is relative to the folder"),
    ):
        with pytest.raises(UserError) as caught:
            image_folder.describe(image_folder.OPTIONS(path=str(tmp_path / path)))
        assert command in caught.value.hint


def layout(folder: Path, paths: str) -> Path:
    """Save images at paths, words with braces: `train/{a,b}/1`; those that end in a slash are folders."""
    for word in paths.split():
        head, _, tail = word.partition("{")
        names, _, end = tail.partition("}")
        for path in [head + name + end for name in names.split(",")] if tail else [word]:
            save(folder / f"{path}.png") if not path.endswith("/") else (folder / path).mkdir(parents=True)
    return folder


# Folders as people have them: training samples, validation samples (None: split off), classes, folders not used.
PARTS = {
    "train/{a,b}/1 test/{a,b}/1": (2, 2, "ab", ()),
    "TRAIN/{a,b}/1 VAL/{a}/1": (2, 1, "ab", ()),
    "training_set/{a,b}/1 test_set/{a,b}/1": (2, 2, "ab", ()),
    "trainset/{a,b}/1 testset/{a,b}/1": (2, 2, "ab", ()),
    "train/{a,b}/1 dev/{a,b}/1": (2, 2, "ab", ()),
    "1.Training/{a,b}/1 2.Validation/{a,b}/1": (2, 2, "ab", ()),
    "pets_train/{a,b}/1 pets_test/{a,b}/1": (2, 2, "ab", ()),
    "seg_train/seg_train/{a,b}/1 seg_test/seg_test/{a,b}/1 seg_pred/seg_pred/1": (2, 2, "ab", ("seg_pred",)),
    "train/images/{a,b}/1 test/images/{a,b}/1": (2, 2, "ab", ()),
    "images/train/{a,b}/1 images/test/{a,b}/1": (2, 2, "ab", ()),
    "train/{a,b}/1": (2, None, "ab", ()),
    "train/{a,b}/1 val/{a}/1 test/{a,b}/1": (2, 1, "ab", ("test",)),
    "Train/{a,b}/1 Testing/{a,b}/1 Validation/{a}/1": (2, 1, "ab", ("Testing",)),
    "train/{a,b}/1 train_extra/{a,b}/1 test/{a}/1": (2, 1, "ab", ("train_extra",)),
    "train/{a,b}/1 val/1 test/{a,b}/1": (2, 2, "ab", ("val",)),
    "{bus,car,train}/1": (3, None, ("bus", "car", "train"), ()),
    "train_station/{in,out}/1 bus_station/{in,up,down}/1": (5, None, ("bus_station", "train_station"), ()),
    "TRAINSET/{a,b}/1 TESTSET/{a,b}/1": (2, 2, "ab", ()),
    "train/{a,b}/1 hold_out/{a,b}/1": (2, 2, "ab", ()),
    "x_train/{a,b}/1 x_test/{b}/1": (2, 1, "ab", ()),
    "train_{cats,dogs}/1": (2, None, ("train_cats", "train_dogs"), ()),
    "cat/{cat,cat2}/1 dog/{dog,dog2}/1": (4, None, ("cat", "dog"), ()),
    "cat/{indoor,outdoor}/1 dog/1": (3, None, ("cat", "dog"), ()),
    "cat/{2019,2020}/1 dog/{2020,2021,2022}/1": (5, None, ("cat", "dog"), ()),
    "{고양이,개}/1": (2, None, ("개", "고양이"), ()),
}
NOT_CLEAR = {
    "part1/{a,b}/1 part2/{a,b}/1": "hold the same folders",
    "one/{a,b,c}/1 two/{a,b}/1": "hold the same folders",
    "train/{a,b}/1 other/{a,b}/1": "hold the same folders",
    "train/{a,b}/1 unlabeled/1": "'train' is called as a part",
    "train_1/{a,b}/1 train_2/{a,b}/1 test/{a,b}/1": "several training parts",
    "train/{a,b}/1 test/{a,b,c}/1": "there is no class 'c'",
    "train/{a,b}/1 test/1": "has no JPEG or PNG file",
    "pets_train/1 pets_test/1": "pets_train has no class folders: 'pets_train' and 'pets_test' are taken for parts",
    "{trainA,trainB,testA,testB}/1": "several training parts",
    "trn/{cat,dog,owl}/1 tst/{cat,dog,owl}/1 annotations/xml/1": "'trn' and 'tst' hold the same folders",
    "{yes,no}/1 brain_tumor/{yes,no}/1": "'brain_tumor' holds folders that are called as those beside it",
    "test/{a}/1": "only class folder",
    "a/1 empty/": "no JPEG or PNG file in the class folders 'empty'",
    "train/{a,b}/1 test/a/": "no JPEG or PNG",
}


def test_folders_that_hold_the_classes_are_parts_whatever_they_are_called(tmp_path, prepared, subtests):
    for paths, (num_train, num_validation, classes, ignored) in PARTS.items():
        with subtests.test(paths=paths):
            found = image_folder._listing(
                image_folder.OPTIONS(path=str(layout(tmp_path / paths.replace("/", " "), paths)))
            )
            assert {part: len(images) for part, images in found.parts.items()} == {
                part: number for part, number in (("train", num_train), ("validation", num_validation)) if number
            }
            assert found.class_names == tuple(classes)
            assert found.ignored_folders == ignored


def test_where_it_is_not_clear_which_folders_are_classes_nothing_is_trained(tmp_path, subtests):
    for paths, message in NOT_CLEAR.items():
        with subtests.test(paths=paths), pytest.raises(UserError, match=message):
            describe(layout(tmp_path / paths.replace("/", " "), paths))


def test_the_parts_that_are_used_and_those_that_are_not_are_reported(tmp_path, prepared):
    folder = str(layout(tmp_path / "images", "train/{a,b}/1 val/{a,b}/1 test/{a,b}/1"))
    said = "'val' is the validation part; not used: 'test'"
    assert said in image_folder.verify(image_folder.OPTIONS(path=folder))
    prepared.entry("image_folder", path=folder)
    assert any(said in line for line in prepared.said)
    assert any("x/255" in line for line in prepared.said)


def test_files_that_are_neither_jpeg_nor_png_are_counted_by_class(folder):
    layout(folder, "{a,b}/1")
    for number in range(3):
        save(folder / "a" / f"{number}.webp")
    (folder / "b" / ".DS_Store").touch()
    assert verified(folder).endswith("not used, as neither JPEG nor PNG: 3 .webp in 'a'")
    (folder / "a" / "1.png").unlink()
    assert "class folders 'a', only .webp" in verified(folder)


def test_images_in_no_class_folder_are_counted(folder):
    layout(folder, "train/{a,b}/1 train/{loose,more} test/{a,b}/1 outside")
    assert "not used, in no class folder: 1 images in 'images', 2 images in 'images/train'" in verified(folder)


def test_one_file_in_two_classes_or_parts_is_refused(tmp_path, subtests):
    for paths, link, target in (
        ("{a,b}/1", "a/up", ".."),
        ("{a,b}/1", "a/2.png", "../b/1.png"),
        ("train/{a,b}/1", "test", "train"),
        ("train/{a,b}/1 test/a/2", "test/b", "../train/b"),
    ):
        with subtests.test(link=link):
            folder = layout(tmp_path / f"{link} {target}".replace("/", " "), paths)
            (folder / link).symlink_to(target)
            with pytest.raises(UserError, match="hold the same file"):
                describe(folder)
    linked = layout(tmp_path / "within", "{a,b}/1")
    (linked / "a" / "again.png").hardlink_to(linked / "a" / "1.png")
    assert describe(linked).num_train == 3


def test_of_many_images_some_are_decoded_and_all_ends_read(folder, monkeypatch):
    monkeypatch.setattr(image_folder, "VERIFIED_IMAGES", 4)
    for name in ("a", "b"):
        for number in range(20):
            save(folder / name / f"{number}.jpg", size=(32, 32))
    assert verified(folder).endswith("4 of 40 images were decoded, and the ends of 36 others read")
    for damaged in ("a/3.jpg", "b/17.jpg"):
        good = (folder / damaged).read_bytes()
        (folder / damaged).write_bytes(good[:-40])
        assert damaged in verified(folder)
        (folder / damaged).write_bytes(good + b"\0" * 99)  # more after the end does no harm
        assert verified(folder).endswith("read")
        (folder / damaged).write_bytes(good)


def test_the_common_size_is_for_images_whose_headers_differ(folder):
    for number in range(100):
        save(folder / "ab"[number % 2] / f"{number}.jpg")
    options = image_folder.OPTIONS(path=str(folder))
    assert image_folder.common_size(options) is None
    exif = Image.Exif()
    exif[0x0112] = 6
    save(folder / "a" / "turned.jpg", size=(4, 6), exif=exif)
    (folder / "b" / "damaged.jpg").write_bytes(b"no image")
    assert image_folder.common_size(options) is None
    save(folder / "b" / "turned.jpg", exif=exif)
    assert image_folder.common_size(options) == image_folder.COMMON_SIZE
