"""Coordinate transformations against what numpy computes by hand."""

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import map_coordinates

from napari_ngff.metadata.compound_transform import (
    Bijection,
    ByDimension,
    Coordinates,
    DimensionPart,
    Displacements,
    Inverse,
    Sequence,
    compose_steps,
)
from napari_ngff.metadata.cursor import Cursor
from napari_ngff.metadata.model import Severity
from napari_ngff.metadata.systems_dump import dump_transformation
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
from napari_ngff.metadata.transform_parse import ParseScope, parse_transformation
from napari_ngff.metadata.vector_field import VectorField, interpolate_array

POINTS = np.array([[0.0, 0.0], [1.0, 2.0], [-3.5, 7.25]])
TURN = Rotation(((0.0, -1.0), (1.0, 0.0)))
SHEAR = Affine(((1.0, 2.0, 3.0), (4.0, 5.0, 6.0)))
SPLIT = ByDimension(
    (DimensionPart(Scale((2.0,)), (0,), (1,)), DimensionPart(Identity(), (1,), (0,)))
)


class Memory:
    def __init__(self, values):
        self.values = values
        self.boxes = []

    shape = property(lambda self: self.values.shape)

    def read(self, box):
        self.boxes.append(box)
        return self.values[tuple(slice(a, b) for a, b in box)]


@pytest.mark.parametrize(
    ("transformation", "expected"),
    [
        (Identity(), lambda y, x: (y, x)),
        (Scale((2.0, 3.0)), lambda y, x: (2 * y, 3 * x)),
        (Translation((9.0, -1.5)), lambda y, x: (y + 9, x - 1.5)),
        (MapAxis((1, 0)), lambda y, x: (x, y)),
        (ProjectAxis(created=(0, 2)), lambda y, x: (0 * y, y, 0 * y, x)),
        (ProjectAxis(dropped=(0,)), lambda y, x: (x,)),
        (ProjectAxis((0,), (0,)), lambda y, x: (0 * x, x)),
        (SHEAR, lambda y, x: (y + 2 * x + 3, 4 * y + 5 * x + 6)),
        (TURN, lambda y, x: (-x, y)),
        (SPLIT, lambda y, x: (x, 2 * y)),
        (
            Sequence((Translation((1.0, 2.0)), Scale((2.0, 3.0)))),
            lambda y, x: (2 * (y + 1), 3 * (x + 2)),
        ),
        (Bijection(Scale((2.0, 2.0)), SHEAR), lambda y, x: (2 * y, 2 * x)),
        (Inverse(Scale((2.0, 4.0))), lambda y, x: (y / 2, x / 4)),
    ],
)
def test_each_type_does_what_the_text_says(transformation, expected):
    moved = transformation.apply(POINTS)
    wanted = np.stack(expected(*POINTS.T), axis=1)
    np.testing.assert_allclose(moved, wanted)
    assert transformation.count_outputs(2) == wanted.shape[1]
    whole = transformation.matrix(2)
    padded = np.column_stack([POINTS, np.ones(3)])
    np.testing.assert_allclose((padded @ whole.T)[:, :-1], wanted)


def test_what_cannot_be_inverted_says_so():
    assert ProjectAxis(dropped=(0,)).inverse() is None
    assert Affine(((1.0, 2.0, 0.0), (2.0, 4.0, 0.0))).inverse() is None
    assert Affine(((1.0, 2.0, 0.0),)).inverse() is None
    assert ByDimension((DimensionPart(Identity(), (1,), (0,)),)).inverse() is None
    assert Sequence((Identity(), Displacements("field"))).inverse() is None
    assert Stored("affine", "a").inverse() is None


@pytest.mark.parametrize(
    "transformation",
    [
        Scale((1.0,)),
        SHEAR,
        MapAxis((0,)),
        ProjectAxis((2,)),
        Stored("affine", "a"),
    ],
)
def test_wrong_numbers_of_axes_are_refused(transformation):
    with pytest.raises(ValueError, match=r"axes|axis|loaded"):
        transformation.count_outputs(3 if transformation is SHEAR else 2)


# -------------------------------------------------------------- algebra

small = st.floats(-10, 10).map(lambda n: round(n, 3))
positive = st.floats(0.1, 10).map(lambda n: round(n, 3))


def vectors(ndim, numbers=small):
    return st.tuples(*[numbers] * ndim)


def affines(ndim):
    # Diagonally dominant: far from singular.
    def build(rows):
        matrix = np.array(rows)
        matrix[range(ndim), range(ndim)] += 10 * ndim + 10
        return Affine(tuple(map(tuple, matrix.tolist())))

    return st.tuples(*[vectors(ndim + 1)] * ndim).map(build)


def turned(angle):
    sine, cosine = np.sin(angle), np.cos(angle)
    return Rotation(((cosine, -sine), (sine, cosine)))


def elementary(ndim):
    options = [
        st.just(Identity()),
        vectors(ndim, positive).map(Scale),
        vectors(ndim).map(Translation),
        st.permutations(range(ndim)).map(lambda order: MapAxis(tuple(order))),
        affines(ndim),
    ]
    if ndim == 2:
        options.append(small.map(turned))
    return st.one_of(options)


@st.composite
def by_dimensions(draw, ndim):
    inputs, outputs = (draw(st.permutations(range(ndim))) for _ in range(2))
    cut = draw(st.integers(1, ndim - 1))
    return ByDimension(
        (
            DimensionPart(
                draw(elementary(cut)), tuple(inputs[:cut]), tuple(outputs[:cut])
            ),
            DimensionPart(
                draw(elementary(ndim - cut)),
                tuple(inputs[cut:]),
                tuple(outputs[cut:]),
            ),
        )
    )


def transformations(ndim):
    def extend(inner):
        return st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(lambda s: Sequence(tuple(s))),
            inner.map(lambda t: Bijection(t, t.inverse())),
        )

    return st.recursive(elementary(ndim) | by_dimensions(ndim), extend, max_leaves=4)


points = st.lists(vectors(3), min_size=1, max_size=4).map(np.array)


@given(transformations(3), points)
@settings(deadline=None)
def test_the_inverse_leads_back(transformation, where):
    there = transformation.apply(where)
    back = transformation.inverse().apply(there)
    np.testing.assert_allclose(back, where, rtol=1e-6, atol=1e-6)


@given(elementary(3), transformations(3), elementary(3), points)
@settings(deadline=None)
def test_composition_is_associative(first, second, third, where):
    left = compose_steps(compose_steps(first, second), third)
    right = compose_steps(first, compose_steps(second, third))
    assert left == right
    stepwise = third.apply(second.apply(first.apply(where)))
    np.testing.assert_allclose(left.apply(where), stepwise, rtol=1e-9, atol=1e-9)


@given(st.sets(st.integers(0, 4), max_size=3), points)
def test_created_axes_are_dropped_again(created, where):
    created = tuple(axis for axis in created if axis < 3 + len(created))
    up = ProjectAxis(created=created)
    np.testing.assert_array_equal(up.inverse().apply(up.apply(where)), where)


def test_a_plane_in_space_leads_back():
    plane = Affine(((1.0, 0.5, 3.0), (0.0, 2.0, 1.0), (4.0, 1.0, 0.0)))
    back = plane.inverse().apply(plane.apply(POINTS))
    np.testing.assert_allclose(back, POINTS, atol=1e-12)


# ----------------------------------------------------------------- JSON


def parsed(document, scope=None):
    problems = []
    found = parse_transformation(Cursor(document, "", problems), scope)
    return found, problems


@given(
    transformations(3)
    | st.sampled_from(
        [
            ProjectAxis((1,), (0, 2)),
            ProjectAxis(created=(3,)),
            Stored("affine", "a/b"),
            Stored("rotation", "r"),
            Displacements("field", "cubic"),
            Coordinates("field", "nearest"),
        ]
    )
)
@settings(deadline=None)
def test_what_is_written_is_read_back(transformation):
    document = json.loads(json.dumps(dump_transformation(transformation)))
    assert parsed(document) == (transformation, [])


@pytest.mark.parametrize(
    "transformation",
    [
        Inverse(Displacements("field")),
        Stored("scale", "s"),
        Scale((0.0,)),
        Scale((-1.0,)),
        Translation((float("nan"),)),
        Sequence(()),
    ],
)
def test_what_0_6_cannot_state_is_refused(transformation):
    with pytest.raises(ValueError, match=r"\w"):
        dump_transformation(transformation)


NAMES = ParseScope(("dim_0", "dim_1"), ("x", "y"))


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"type": "mapAxis", "mapAxis": {"x": "dim_1", "y": "dim_0"}}, MapAxis((1, 0))),
        (
            {"type": "inverseOf", "transformation": {"type": "scale", "scale": [2]}},
            Scale((0.5,)),
        ),
        (
            {"type": "inverseOf", "transform": {"type": "displacements", "path": "d"}},
            Inverse(Displacements("d")),
        ),
        (
            {"type": "sequence", "transforms": [{"type": "identity"}]},
            Sequence((Identity(),)),
        ),
        ({"type": "scale", "path": "/s"}, Stored("scale", "s")),
        ({"type": "translation", "path": "t"}, Stored("translation", "t")),
        (
            {
                "type": "byDimension",
                "transformations": [
                    {
                        "transformation": {"type": "identity"},
                        "input_axes": [1],
                        "output_axes": [0],
                    },
                    {
                        "type": "scale",
                        "scale": [2],
                        "input": ["dim_0"],
                        "output": ["y"],
                    },
                ],
            },
            ByDimension(
                (
                    DimensionPart(Identity(), (1,), (0,)),
                    DimensionPart(Scale((2.0,)), (0,), (1,)),
                )
            ),
        ),
    ],
)
def test_spellings_of_the_drafts(document, expected):
    found, problems = parsed(document, NAMES)
    assert found == expected
    assert {p.severity for p in problems} == {Severity.WARNING}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"type": "affine", "path": "/p/"}, Stored("affine", "p")),
        (
            {"type": "coordinates", "path": "c", "interpolation": "bspline-cubic"},
            Coordinates("c", "cubic"),
        ),
        ({"scale": [1, 2]}, Scale((1.0, 2.0))),
    ],
)
def test_other_readable_spellings(document, expected):
    assert parsed(document) == (expected, [])


@pytest.mark.parametrize(
    "document",
    [
        {"type": "shear"},
        {},
        {"type": "scale"},
        {"type": "scale", "scale": [1, "2"]},
        {"type": "affine", "affine": [[1, 2], [3]]},
        {"type": "affine", "affine": [1, 2, 3]},
        {"type": "rotation", "rotation": [[1, 0, 0], [0, 1, 0]]},
        {"type": "mapAxis", "mapAxis": [0, 2]},
        {"type": "mapAxis", "mapAxis": [0, 0]},
        {"type": "mapAxis", "mapAxis": {"x": "q"}},
        {"type": "projectAxis"},
        {"type": "projectAxis", "droppedInputs": [0, 1, 2, 3]},
        {"type": "projectAxis", "createdOutputs": [5]},
        {"type": "sequence", "transformations": []},
        {"type": "sequence", "transformations": [{"type": "scale"}]},
        {"type": "byDimension", "transformations": [{"transformation": {}}]},
        {"type": "bijection", "forward": {"type": "identity"}},
        {"type": "displacements"},
        {"type": "inverseOf"},
    ],
)
def test_what_is_unusable_is_reported(document):
    found, problems = parsed(document)
    assert found is None
    assert Severity.ERROR in {p.severity for p in problems}


def test_endless_nesting_is_cut():
    document = {"type": "identity"}
    for _ in range(40):
        document = {"type": "sequence", "transformations": [document]}
    found, problems = parsed(document)
    assert found is None
    assert any(re.search("nested", p.text) for p in problems)


# --------------------------------------------------------------- fields


@pytest.fixture
def grid():
    y, x = np.mgrid[:20, :30]
    return np.stack([0.3 * np.sin(y / 4), 0.5 * np.cos(x / 5)], axis=-1)


def index_of(where):
    return ((where - [4.0, -2.0]) / [2.0, 0.5]).T


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(("name", "order"), [("linear", 1), ("cubic", 3)])
def test_fields_are_sampled_as_scipy_does(grid, axis, name, order):
    array = Memory(np.moveaxis(grid, -1, axis))
    field = VectorField(array, axis, (2.0, 0.5), (4.0, -2.0))
    where = np.random.default_rng(0).uniform([6, 0], [40, 12], (50, 2))
    wanted = np.stack(
        [
            map_coordinates(grid[..., i], index_of(where), order=order, mode="nearest")
            for i in (0, 1)
        ],
        axis=1,
    )
    displaced = Displacements("d", name, field).apply(where)
    np.testing.assert_allclose(displaced, where + wanted, atol=1e-6)
    looked_up = Coordinates("c", name, field).apply(where)
    np.testing.assert_allclose(looked_up, wanted, atol=1e-6)


def test_nearest_takes_the_vector_of_the_cell(grid):
    field = VectorField(Memory(grid), 2, (1.0, 1.0), (0.0, 0.0))
    where = np.array([[3.4, 7.6], [3.5, 0.0], [-9.0, 99.0]])
    wanted = grid[[3, 4, 0], [8, 0, 29]]
    np.testing.assert_array_equal(
        Coordinates("c", "nearest", field).apply(where), wanted
    )


def test_only_the_part_that_is_asked_for_is_read(grid):
    array = Memory(grid)
    field = VectorField(array, 2, (1.0, 1.0), (0.0, 0.0))
    field.sample_vectors(np.array([[3.2, 5.0], [4.9, 5.0]]), "linear")
    assert array.boxes == [((3, 6), (5, 6), (0, 2))]


def test_far_points_of_a_large_field_are_read_apart():
    size = 6000

    def read(box):
        shape = [b - a for a, b in box]
        assert np.prod(shape) < size
        return np.full(shape, box[0][0])

    where = np.array([[1.0, 1.0], [size - 2.0, size - 2.0]])
    found = interpolate_array(read, (size, size), where, 1)
    np.testing.assert_array_equal(found, [1, size - 2])


@given(data=st.data(), shape=st.lists(st.integers(1, 7), min_size=1, max_size=3))
def test_points_of_a_mesh_are_interpolated_like_single_points(data, shape):
    values = np.random.default_rng(len(shape)).uniform(-9, 9, (*shape, 2))
    places = st.lists(st.floats(-3, 9, width=32), min_size=1, max_size=4)
    lines = [data.draw(places) for _ in shape]
    mesh = np.meshgrid(*lines, indexing="ij")
    where = np.stack([axis.ravel() for axis in mesh], axis=1)
    found = interpolate_array(Memory(values).read, shape, where, 1)
    for i in (0, 1):
        wanted = map_coordinates(values[..., i], where.T, order=1, mode="nearest")
        np.testing.assert_allclose(found[:, i], wanted, atol=1e-4)
    # Nearly a mesh: one of its points is elsewhere.
    where[data.draw(st.integers(0, len(where) - 1)), -1] += 0.75
    found = interpolate_array(Memory(values[..., 0]).read, shape, where, 1)
    wanted = map_coordinates(values[..., 0], where.T, order=1, mode="nearest")
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_the_corners_of_a_large_field_are_read_apart():
    size = 6000

    def read(box):
        assert np.prod([stop - start for start, stop in box]) < size
        return np.add.outer(*(np.arange(*span) for span in box))

    where = np.array([[y, x] for y in (1.0, size - 2.0) for x in (1.0, size - 2.0)])
    found = interpolate_array(read, (size, size), where, 1)
    np.testing.assert_array_equal(found, where.sum(axis=1))


def test_the_edge_of_a_field_goes_on(grid):
    field = VectorField(Memory(grid), 2, (1.0, 1.0), (0.0, 0.0))
    inside, outside = np.array([[0.0, 29.0]]), np.array([[-50.0, 80.0]])
    np.testing.assert_array_equal(
        field.sample_vectors(inside, "linear"), field.sample_vectors(outside, "linear")
    )


@pytest.mark.parametrize("made", [Displacements, Coordinates])
def test_the_inverse_of_a_field_is_solved_for(grid, made):
    scale = 1.0 if made is Displacements else 3.0
    values = grid + (scale == 3.0) * 3 * np.moveaxis(np.mgrid[:20, :30], 0, -1)
    of = made("f", "linear", VectorField(Memory(values), 2, (1.0, 1.0), (0.0, 0.0)))
    where = np.random.default_rng(1).uniform(1, 18, (40, 2))
    back = Inverse(of).apply(of.apply(where))
    np.testing.assert_allclose(back, where, atol=1e-5)


def test_a_field_of_one_axis_needs_no_vector_axis():
    field = VectorField(Memory(np.array([0.0, 10.0, 40.0])), None, (1.0,), (0.0,))
    one = Coordinates("c", "linear", field)
    whole = ByDimension(
        (DimensionPart(one, (1,), (0,)), DimensionPart(Identity(), (0,), (1,)))
    )
    moved = whole.apply(np.array([[7.0, 1.5], [8.0, 0.5]]))
    np.testing.assert_allclose(moved, [[25.0, 7.0], [5.0, 8.0]])
