"""Contrast of what is on the screen, as WCAG 2.2 reckons it, from rendered pixels."""

from __future__ import annotations

import numpy as np
from superqt.utils import qimage_to_array

TEXT, SIGN = 4.5, 3.0
"""What WCAG asks of text, and of signs and of the focus."""


def pixels(widget, rect=None):
    """Colours of a widget as it is drawn, float 0-1: height, width, red green blue."""
    grabbed = widget.grab() if rect is None else widget.grab(rect)
    return qimage_to_array(grabbed.toImage())[..., :3] / 255


def luminance(colors):
    linear = np.where(
        colors <= 0.04045, colors / 12.92, ((colors + 0.055) / 1.055) ** 2.4
    )
    return linear @ [0.2126, 0.7152, 0.0722]


def ratio(one, other):
    """Contrast of colours with others, from 1 to 21."""
    first, second = luminance(one) + 0.05, luminance(other) + 0.05
    return np.maximum(first, second) / np.minimum(first, second)


def ground(picture):
    """Colour that most of a picture has."""
    colors, counts = np.unique(picture.reshape(-1, 3), axis=0, return_counts=True)
    return colors[counts.argmax()]


def text_ratio(picture):
    """Contrast of the text on a picture: of its strongest pixels with the ground."""
    return float(ratio(picture, ground(picture)).max())


def sign_ratio(before, after):
    """Contrast of a sign with what is around it, from pictures without and with it.

    That of its two colours, where it has two: one of them is seen on any ground.
    """
    changed = (before != after).any(axis=-1)
    colors = np.concatenate([after[changed], before[changed]])
    found, counts = np.unique(colors, axis=0, return_counts=True)
    light = luminance(found[counts > 3])
    return float((light.max() + 0.05) / (light.min() + 0.05)) if len(light) else 1.0
