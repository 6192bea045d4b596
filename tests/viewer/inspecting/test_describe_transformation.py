"""Transformations as people read them."""

import pytest

from napari_ngff.metadata.compound_transform import (
    Bijection,
    ByDimension,
    Coordinates,
    DimensionPart,
    Displacements,
    Inverse,
    Sequence,
)
from napari_ngff.metadata.transform import (
    Affine,
    Identity,
    MapAxis,
    ProjectAxis,
    Rotation,
    Scale,
    Stored,
    Translation,
)
from napari_ngff.viewer.inspecting.describe_node import (
    MINUS,
    TIMES,
    describe_transformation,
)


@pytest.mark.parametrize(
    ("transformation", "expected"),
    [
        (Identity(), "unchanged"),
        (Scale((0.5, 1.0)), "y * 0.5"),
        (Scale((1.0, 1.0)), "unchanged"),
        (Translation((10.0, -2.5)), "y + 10, x ~ 2.5"),
        (MapAxis((1, 0)), "axes in the order x, y"),
        (ProjectAxis((0,), (1,)), "without y, with new axes at 1"),
        (Affine(((1, 2, 3), (0, 1, 4))), "affine [1 2 3; 0 1 4]"),
        (Rotation(((0.0, -1.0), (1.0, 0.0))), "turned by 90°"),
        (Stored("affine", "m"), 'affine by the numbers at "m"'),
        (Displacements("d", "cubic"), 'displaced by the field at "d" (cubic)'),
        (Coordinates("c"), 'looked up in the field at "c" (linear)'),
        (Inverse(Displacements("d")), "the inverse of: displaced by the field at"),
        (Bijection(Scale((2.0, 2.0)), Scale((0.5, 0.5))), "y * 2, x * 2 (its inverse"),
        (
            Sequence((Scale((2.0, 2.0)), Identity(), Translation((1.0, 0.0)))),
            "y * 2, x * 2, then y + 1",
        ),
        (
            Sequence((MapAxis((1, 0)), Scale((2.0, 1.0)))),
            "axes in the order x, y, then x * 2",
        ),
        (
            ByDimension(
                (
                    DimensionPart(Scale((3.0,)), (1,), (0,)),
                    DimensionPart(Identity(), (0,), (1,)),
                )
            ),
            "of (x): x * 3; of (y): unchanged",
        ),
        (
            Sequence((ProjectAxis((0,)), Scale((2.0,)))),
            "without y, then axis 0 * 2",
        ),
    ],
)
def test_each_transformation_has_a_sentence(transformation, expected):
    expected = expected.replace("*", TIMES).replace("~", MINUS)
    assert describe_transformation(transformation, "yx").startswith(expected)
