"""GIST descriptors agree with published ones and have the expected invariances."""

from pathlib import Path

import numpy as np
import pytest

from manihash.datasets import gist, read
from manihash.errors import DataFileError
from manihash.pages.image_folder import image_paths, small_images


def test_gray_gist_of_cifar10_equals_the_published_one_in_half_precision(data_folder: Path) -> None:
    images = read(data_folder / "cifar10-sample/cifar10_first200.npz", key="images")
    published = read(data_folder / "cifar10-gist/cifar10_gist512.npz", key="X")[:200]
    descriptors = gist(images).astype(np.float16)
    steps_apart = np.abs(descriptors.view(np.int16).astype(int) - published.view(np.int16))
    assert steps_apart.max() <= 1
    assert np.mean(steps_apart == 0) > 0.99


def test_color_gist_of_tiny_imagenet_equals_the_published_one(data_folder: Path) -> None:
    path = data_folder / "cifar10-sample/tinyimagenet_60.npz"
    descriptors = gist(read(path, key="images"), color=True)
    assert np.mean(np.rint(255 * descriptors) == read(path, key="gist960")) > 0.9999


@pytest.fixture
def images() -> np.ndarray:
    smooth = np.random.default_rng(0).normal(size=(3, 32, 32, 3)).cumsum(axis=1).cumsum(axis=2)
    low, high = smooth.min(axis=(1, 2, 3), keepdims=True), smooth.max(axis=(1, 2, 3), keepdims=True)
    return (255 * (smooth - low) / (high - low)).astype(np.uint8)


def test_gray_descriptors_have_512_numbers_and_color_descriptors_960(images: np.ndarray) -> None:
    assert gist(images).shape == (3, 512)
    assert gist(images, color=True).shape == (3, 960)
    assert gist(images[:0]).shape == (0, 512)


def test_a_descriptor_does_not_depend_on_the_other_images(images: np.ndarray) -> None:
    many = np.concatenate([images] * 15)
    np.testing.assert_allclose(gist(many)[40], gist(images[1:2])[0], rtol=1e-4, atol=1e-6)


def test_an_image_of_double_size_has_the_same_descriptor(images: np.ndarray) -> None:
    doubled = images.repeat(2, axis=1).repeat(2, axis=2)
    np.testing.assert_allclose(gist(doubled, color=True), gist(images, color=True), rtol=1e-4, atol=1e-6)


def test_scaling_by_area_keeps_the_mean_of_an_image_of_any_size() -> None:
    from manihash.datasets.gist import _area_weights

    for length in (8, 28, 33, 50, 96):
        weights = _area_weights(length)
        np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-6)
        np.testing.assert_allclose(weights.sum(axis=0), 32 / length, rtol=1e-5)


def test_brightness_and_contrast_do_not_change_a_gray_descriptor(images: np.ndarray) -> None:
    dimmed = 20 + 0.5 * images.astype(np.float64)
    np.testing.assert_allclose(gist(dimmed), gist(images.astype(np.float64)), rtol=1e-3, atol=1e-4)


def test_transposing_an_image_swaps_its_blocks(images: np.ndarray) -> None:
    upright = gist(images).reshape(3, 4, 8, 4, 4)
    turned = gist(images.swapaxes(1, 2)).reshape(3, 4, 8, 4, 4)
    # Not exact: the highest frequency has one sign only, and zero frequency an angle by convention.
    np.testing.assert_allclose(turned[:, :, 4], upright[:, :, 0].swapaxes(2, 3), rtol=0, atol=0.003)


def test_the_descriptor_of_a_flat_image_is_zero() -> None:
    assert np.abs(gist(np.full((1, 32, 32), 7, np.uint8))).max() < 1e-5


@pytest.mark.parametrize(
    ("pixels", "message"),
    [
        (np.zeros((4, 64)), "expected"),
        (np.zeros((2, 32, 32, 4)), "expected"),
        (np.zeros((2, 0, 32)), "expected"),
        (np.full((1, 8, 8), np.nan), "NaN"),
        (np.full((1, 8, 8), -1.0), "0 to 255"),
        (np.full((1, 8, 8), "a"), "0 to 255"),
    ],
)
def test_an_array_that_is_not_images_is_refused(pixels: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gist(pixels)


def test_a_color_descriptor_needs_three_planes() -> None:
    with pytest.raises(ValueError, match=r"expected \(n, h, w, 3\):"):
        gist(np.zeros((1, 32, 32)), color=True)


def test_images_of_a_folder_have_the_descriptors_of_their_pixels(tmp_path):
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    pixels = [rng.integers(0, 256, (48 + 16 * i, 64, 3), dtype=np.uint8) for i in range(3)]
    for i, each in enumerate(pixels):
        image.fromarray(each).save(tmp_path / f"{2 - i}.png")
    (tmp_path / "notes.txt").write_text("no image")
    paths = image_paths(tmp_path)
    assert [path.name for path in paths] == ["0.png", "1.png", "2.png"]
    for color in (False, True):
        found = gist(small_images(paths), color=color)
        expected = np.vstack([gist(each[None], color=color) for each in pixels[::-1]])
        assert np.allclose(found, expected, atol=1e-5)


def test_a_file_that_is_not_an_image_is_named(tmp_path):
    pytest.importorskip("PIL.Image")
    (tmp_path / "a.png").write_bytes(b"not an image")
    with pytest.raises(DataFileError, match=r"a\.png: the file is not an image that can be read"):
        small_images(image_paths(tmp_path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no image"):
        image_paths(tmp_path / "empty")
