"""Colours of classes: apart for everybody, and from what is on the screen."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from skimage.color import deltaE_ciede2000, rgb2lab

from napari_ngff.labels.class_colors import PALETTE, free_color

BLIND = {
    "nobody": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
"""What is seen of linear red, green and blue (Machado, Oliveira and Fernandes 2009)."""

APART = 10
"""Of CIEDE2000: 1 is just seen side by side, so much at a glance."""


@pytest.mark.parametrize("who", BLIND)
def test_colours_are_distinguished_by_the_colour_blind(who):
    rgb = np.array(PALETTE)[:, :3] / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ np.transpose(BLIND[who]), 0, 1)
    curved = np.where(
        seen <= 0.0031308, seen * 12.92, 1.055 * seen ** (1 / 2.4) - 0.055
    )
    lab = rgb2lab(curved)
    pairs = list(combinations(lab, 2))
    distances = [float(deltaE_ciede2000(one, other)) for one, other in pairs]
    assert min(distances) > APART, distances
    background = rgb2lab(np.zeros(3))
    assert min(float(deltaE_ciede2000(one, background)) for one in lab) > APART


def distances(colors, others):
    first, second = (
        rgb2lab(np.array([color[:3] for color in each]) / 255)
        for each in (colors, others)
    )
    return np.array([[float(deltaE_ciede2000(a, b)) for b in second] for a in first])


def test_thirty_classes_have_colours_apart():
    colors = []
    for _ in range(30):
        colors.append(free_color(colors))
    assert tuple(colors[: len(PALETTE)]) == PALETTE
    between = distances(colors, [*colors, (0, 0, 0)])
    np.fill_diagonal(between, 100)
    assert between.min() > APART


@pytest.mark.parametrize("number", [1, 4, 9, 20])
@pytest.mark.parametrize("seed", range(3))
def test_a_new_class_is_apart_from_classes_and_labels(number, seed):
    random = np.random.default_rng(seed)
    labels = random.integers(0, 256, (number, 3))
    classes = [tuple(PALETTE[at]) for at in random.permutation(len(PALETTE))[:3]]
    color = free_color(classes, classes[0], labels)
    assert color[3] == 255
    assert distances([color], [*classes, *labels]).min() > APART


def test_beside_hundreds_of_labels_a_new_class_is_apart_from_classes():
    labels = np.random.default_rng(0).integers(0, 256, (500, 3))
    classes = []
    for _ in range(12):
        classes.append(free_color(classes, PALETTE[0], labels))
    between = distances(classes, classes)
    np.fill_diagonal(between, 100)
    assert between.min() > APART
