"""Rules of multiscales and their datasets, and of how images are shown."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from napari_ngff.metadata.rules.axis_rules import check_axes, check_systems
from napari_ngff.metadata.rules.link_rules import check_links, name_of, sizes_of
from napari_ngff.metadata.rules.rule import (
    MUST,
    SHOULD,
    FormatRule,
    apply_rules,
    find_absent,
    find_other_values,
    is_text,
    search_entries,
)
from napari_ngff.metadata.rules.transformation_rules import (
    TransformPlace,
    check_transformation,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from napari_ngff.metadata.cursor import Cursor


def bad_chains(place: Cursor) -> Iterator[Cursor]:
    """Find lists other than one scale, or a scale and a translation (up to 0.5)."""
    steps = place.at("coordinateTransformations")
    types = [step.at("type").value for step in steps.children()]
    # An empty list is reported by a rule of its own.
    if steps.children() and types not in (["scale"], ["scale", "translation"]):
        yield steps


def bad_steps(place: Cursor) -> Iterator[Cursor]:
    """Find anything but a scale, an identity, or a scale with a translation (0.6)."""
    for step in place.at("coordinateTransformations").children():
        types = [s.at("type").value for s in step.at("transformations").children()]
        # "identity" is allowed in place of a scale only, not inside a sequence.
        whole = step.at("type").value
        if whole not in ("scale", "identity") and (
            whole != "sequence" or types != ["scale", "translation"]
        ):
            yield step


MULTISCALE = (
    FormatRule(
        "axes-missing",
        MUST,
        "Each multiscales dictionary MUST contain the field axes.",
        # From 0.6 on axes are in `coordinateSystems`.
        find_absent("axes"),
        since=3,
        until=5,
        consequence="The dimensions of the arrays decide.",
    ),
    FormatRule(
        "transform-list-empty",
        MUST,
        "The transformations MUST follow the same rules about allowed types, order, "
        "etc. as in datasets:coordinateTransformations: at least one.",
        find_other_values(lambda value: value != [], "coordinateTransformations"),
        since=4,
        until=5,
    ),
    FormatRule(
        "multiscale-name-missing",
        SHOULD,
        "Each multiscales object SHOULD contain the field name.",
        find_absent("name"),
        consequence="It is shown by the name of its group.",
    ),
    FormatRule(
        "version-missing",
        SHOULD,
        "It SHOULD contain the field version, which indicates the version of the "
        "multiscale metadata of this image.",
        # From 0.5 on "ome" states the version of the whole document.
        find_absent("version"),
        until=4,
    ),
    FormatRule(
        "multiscale-type-missing",
        SHOULD,
        "Each multiscales object SHOULD contain the field type, which gives the type "
        "of downscaling method used to generate the multiscale image pyramid.",
        find_absent("type"),
    ),
    FormatRule(
        "multiscale-metadata-missing",
        SHOULD,
        "It SHOULD contain the field metadata, which contains a object with additional "
        "information about the downscaling method.",
        find_absent("metadata"),
    ),
    FormatRule(
        "multiscale-metadata-type",
        MUST,
        "... the field metadata, which contains a object with additional information "
        "about the downscaling method.",
        find_other_values(lambda value: isinstance(value, dict), "metadata"),
    ),
    FormatRule(
        "transforms-order",
        MUST,
        "The transformations MUST follow the same rules about allowed types, order, "
        "etc. as in datasets:coordinateTransformations.",
        bad_chains,
        since=4,
        until=5,
        consequence="They are applied in their order.",
    ),
)

DATASET = (
    FormatRule(
        "transforms-missing",
        MUST,
        "Each object in datasets MUST contain the field coordinateTransformations.",
        find_absent("coordinateTransformations"),
        since=4,
        consequence="A voxel has the size 1.",
    ),
    FormatRule(
        "transforms-order",
        MUST,
        "They MUST contain exactly one scale transformation ... It MAY contain exactly "
        "one translation ... If translation is given it MUST be listed after scale.",
        bad_chains,
        since=4,
        until=5,
        consequence="They are applied in their order.",
    ),
    FormatRule(
        "transforms-several",
        MUST,
        "coordinateTransformations: exactly one transformation.",
        find_other_values(
            lambda value: not isinstance(value, list) or len(value) < 2,
            "coordinateTransformations",
        ),
        since=6,
        consequence="The first one is used.",
    ),
    FormatRule(
        "dataset-transform-type",
        MUST,
        "The transformation MUST be one of the following: A single scale or identity "
        "transformation. A sequence transformation containing one scale and one "
        "translation transformation.",
        bad_steps,
        since=6,
    ),
    FormatRule(
        "dataset-input",
        MUST,
        "input MUST be an object with the path of the dataset.",
        lambda dataset: (
            step.at("input")
            for step in dataset.at("coordinateTransformations").children()
            if not is_text(step.at("input").at("path").value)
        ),
        since=6,
        consequence="The path of the dataset is taken.",
    ),
    FormatRule(
        "dataset-output",
        MUST,
        "output MUST be an object with the name of the intrinsic coordinate system.",
        lambda dataset: (
            step.at("output")
            for step in dataset.at("coordinateTransformations").children()
            if not is_text(step.at("output").at("name").value)
        ),
        since=6,
    ),
    FormatRule(
        "dataset-input-differs",
        SHOULD,  # a valid case of the specification breaks it
        "The value of input MUST equal the value of path, implementations should "
        "always treat the value of input as if it were equal to the value of path.",
        lambda dataset: (
            step.at("input").at("path")
            for step in dataset.at("coordinateTransformations").children()
            # A missing input is reported by another rule.
            if is_text(step.at("input").at("path").value)
            and step.at("input").at("path").value != dataset.at("path").value
        ),
        since=6,
        consequence="The path of the dataset is taken.",
    ),
)


def check_multiscale(multiscale: Cursor, minor: int) -> None:
    """Report broken rules of one entry of ``multiscales``."""
    apply_rules(MULTISCALE, multiscale, minor)
    if minor < 6:
        check_axes(multiscale.at("axes"), minor)
    else:
        check_systems(multiscale, minor, arrays=True)
    # Up to 0.5 all transformations have the number of axes; in 0.6 each system has its
    # own, and of an unknown one (None) lengths are not judged.
    sizes = sizes_of(multiscale)
    ndim = len(multiscale.at("axes").children()) or None
    datasets = multiscale.at("datasets").children()
    for dataset in datasets:
        apply_rules(DATASET, dataset, minor)
    # In 0.4 and 0.5 those of the multiscale are steps as well; in 0.6 they are links.
    chain_owners = datasets if minor not in (4, 5) else [*datasets, multiscale]
    for owner in chain_owners:
        for step in owner.at("coordinateTransformations").children():
            size = ndim if minor < 6 else sizes.get(name_of(step.at("output")))
            # A scale of two numbers for three axes is a valid case of 0.4 and 0.6.
            check_transformation(
                step, TransformPlace(minor, size, size, lenient=minor != 5)
            )
    # The intrinsic system is the one that the levels lead to.
    if minor >= 6:
        outputs = [
            name_of(step.at("output"))
            for dataset in datasets
            for step in dataset.at("coordinateTransformations").children()
        ]
        check_links(multiscale, outputs[0] if outputs else None)


LIMITS = ("min", "max", "start", "end")

COLOR = FormatRule(
    "channel-color-missing",
    MUST,
    "Each object in channels MUST contain the field color, which is a string of 6 "
    "hexadecimal digits specifying the color of the channel in RGB format.",
    search_entries("channels", find_absent("color")),
    until=4,  # see `OMERO` for later versions
    consequence="It gets a colour of napari's.",
)
WINDOW = FormatRule(
    "channel-window-missing",
    MUST,
    "Each object in channels MUST contain the field window, which is a object "
    "describing the windowing of the channel.",
    search_entries("channels", find_absent("window")),
    until=4,
    consequence="Its contrast comes from the pixels.",
)

OMERO = (
    COLOR,
    WINDOW,
    # The schemas of 0.5 and 0.6 have neither.
    replace(COLOR, severity=SHOULD, since=5, until=6),
    replace(WINDOW, severity=SHOULD, since=5, until=6),
    FormatRule(
        "channel-window-incomplete",
        MUST,
        "The field window MUST contain the fields min and max, which are the minimum "
        "and maximum values of the window, respectively. It MUST also contain the "
        "fields start and end, which are the start and end values of the window, "
        "respectively.",
        # A missing window is another rule's, which also differs between versions.
        lambda omero: (
            limit
            for channel in omero.at("channels").children()
            for limit in find_absent(*LIMITS)(channel.at("window"))
        ),
        consequence="Missing values are taken from the pixels.",
    ),
    FormatRule(
        "channel-family-type",
        MUST,
        "family: a string.",
        search_entries("channels", find_other_values(is_text, "family")),
    ),
)

LABEL = (
    FormatRule(
        "label-version-missing",
        SHOULD,
        "That image-label object SHOULD contain ... a version key, whose value MUST be "
        "a string specifying the version of the OME-Zarr image-label schema.",
        find_absent("version"),
        since=4,
        until=5,
    ),
    FormatRule(
        "label-colors-missing",
        SHOULD,
        "That image-label object SHOULD contain a colors key, whose value MUST be a "
        "JSON array describing color information for the unique label values.",
        find_absent("colors"),
        since=4,
        consequence="napari's colours are used.",
    ),
    FormatRule(
        "label-list-empty",
        MUST,
        "colors and properties: an array of at least one object (minItems of the "
        "schema).",
        find_other_values(lambda value: value != [], "colors", "properties"),
        since=4,
    ),
)
