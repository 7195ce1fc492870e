"""
Near-duplicates in a folder of photos
=====================================

Find copies of photos that were cropped, brightened or made noisy. The photos are pieces of the two sample
images of scikit-learn, and the copies are made here, so that the right answer is known.
"""

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

from manihash import dedup
from manihash.hashers import SignQuantizer

rng = np.random.default_rng(0)

# %%
# 120 different photos of 96 × 96 pixels, and a changed copy of every fourth one.

images = [Image.fromarray(image) for image in load_sample_images().images]


def piece():
    """A random part of one of the two images."""
    left, top, size = rng.integers(0, 420), rng.integers(0, 220), rng.integers(120, 200)
    return images[rng.integers(2)].crop((left, top, left + size, top + size)).resize((96, 96))


def changed(photo):
    """The photo with a thin border cut off, another brightness, and noise."""
    edges = (*rng.integers(0, 3, 2), *rng.integers(94, 97, 2))
    pixels = np.asarray(photo.crop(edges).resize((96, 96)), float) * rng.uniform(0.8, 1.2)
    return Image.fromarray(np.clip(pixels + rng.normal(0, 6, pixels.shape), 0, 255).astype(np.uint8))


photos = [piece() for _ in range(120)]
copies = {120 + number: 4 * number for number in range(30)}
photos += [changed(photos[original]) for original in copies.values()]

# %%
# The features are a small gray version of each photo, without its mean and scaled to unit length. Codes for
# duplicates must keep details, so the hasher is not a manifold method:
# :class:`~manihash.hashers.SignQuantizer` takes the sign in 128 random directions.

X = np.stack([np.asarray(photo.convert("L").resize((16, 16)), float).ravel() for photo in photos])
X -= X.mean(axis=1, keepdims=True)
codes = SignQuantizer(n_bits=128, normalize=True, random_state=0).fit(X).encode(X)
found = dedup(codes, n_bits=128, radius=12)
print(f"{len(found)} groups, {len(found.extra)} photos that are copies of an earlier one")

# %%
# How many copies were found, and how many photos were called a copy by mistake?

right = sum(set(copies.items()) >= {(int(extra), int(group[0]))} for group in found for extra in group[1:])
print(f"{right} of {len(copies)} copies found, {len(found.extra) - right} mistakes")

# %%
# Some of the groups.

fig, axes = plt.subplots(2, 8, figsize=(9, 2.6))
for column, group in zip(axes.T, found, strict=False):
    for axis, photo in zip(column, group, strict=False):
        axis.imshow(photos[photo])
        axis.set_title(f"photo {photo}", fontsize=7)
for axis in axes.flat:
    axis.axis("off")
fig.tight_layout(pad=0.2)
plt.show()
