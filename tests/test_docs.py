"""The documentation holds: links lead somewhere, examples run, output is what it is."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from napari_ngff import cli
from napari_ngff.viewer.samples import write_image, write_plate, write_stack
from patience import PATIENCE

ROOT = Path(__file__).parents[1]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[tuple[str, str]]:
    """Page and text of each block; the README has tests of its own."""
    return [
        (page, text)
        for page, content in PAGES.items()
        for found, text in BLOCK.findall(content)
        if found == language and page != "README.md"
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, untouched: Path) -> Path:
    """A folder with the files that the pages speak of."""
    return Path(shutil.copytree(untouched, tmp_path_factory.mktemp("docs") / "data"))


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, for what only looks: the code of some pages writes."""
    return filled(tmp_path_factory.mktemp("untouched"))


def filled(folder: Path) -> Path:
    write_image(folder / "cells.ome.zarr")
    write_stack(folder / "spheroid.ome.zarr")
    write_plate(folder / "plate.ome.zarr", grid=(2, 2), fields=1, shape=(64, 64))
    return folder


@pytest.mark.parametrize("page", PAGES)
def test_links_and_pictures_exist(page: str) -> None:
    text = BLOCK.sub("", PAGES[page])
    targets = re.findall(r"\]\(([^)#\s]+)", text)
    here = (ROOT / page).parent
    missing = [t for t in targets if "://" not in t and not (here / t).exists()]
    assert missing == []


def headings(page: Path) -> set[str]:
    """Anchors of the headings of a page that repositories and the site agree on."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    found = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        of_repository = re.sub(r"[^\w\s-]", "", plain).replace(" ", "-")
        ascii_only = plain.encode("ascii", "ignore").decode()
        of_site = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_only).strip())
        if of_site == of_repository:
            found.add(of_site)
    return found


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_headings(page: str) -> None:
    here = ROOT / page
    missing = [
        f"{target}#{anchor}"
        for target, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", PAGES[page])
        if anchor not in headings(here.parent / target if target else here)
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_addresses_are_whole(page: str) -> None:
    text = BLOCK.sub("", PAGES[page])
    addresses = re.findall(r"\]\(([^)\s]*:[^)\s]*)\)", text)
    parts = [urlsplit(address) for address in addresses]
    assert [p for p in parts if p.scheme != "https" or "." not in p.netloc] == []


def test_the_site_has_the_pages_of_the_first_page_in_its_order() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    first, *parts = site["nav"]
    assert first == {"Home": "index.md"}
    in_site = {name: pages for part in parts for name, pages in part.items()}
    index = PAGES["docs/index.md"]
    in_index = {
        name: re.findall(r"\]\(([^)#\s]+\.md)\)", section)
        for name, section in re.findall(r"^## (.+)\n([^#]+)", index, re.MULTILINE)
        if name in in_site
    }
    assert in_index == in_site


def test_every_preference_has_its_row_with_the_default() -> None:
    manifest = yaml.safe_load((ROOT / "napari.yaml").read_text(encoding="utf-8"))
    groups = manifest["contributions"]["configurations"].values()
    stated = {
        entry["title"]: {"True": "on", "False": "off"}.get(default, default)
        for group in groups
        for entry in group["properties"].values()
        for default in [str(entry["default"])]
    }
    _, _, section = PAGES["docs/keys.md"].partition("## Preferences")
    rows = re.findall(r"^\| (.+) \| ([^:|]+)[^|]*\|$", section.split("## ")[0], re.M)
    assert {name: default.strip() for name, default in rows[1:]} == stated


def test_every_page_is_reached_from_the_first() -> None:
    reached, waiting = set(), [ROOT / "docs/index.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        found = re.findall(r"\]\(([^)#\s]+\.md)", page.read_text(encoding="utf-8"))
        waiting += [(page.parent / target).resolve() for target in found]
    assert reached >= set((ROOT / "docs").rglob("*.md"))


def test_every_picture_is_shown_and_small() -> None:
    shown = {
        ((ROOT / page).parent / target).resolve()
        for page, text in PAGES.items()
        for target in re.findall(r"\]\(([^)]+\.(?:png|webp))\)", text)
    }
    limits = {".png": 300_000, ".webp": 1_000_000}
    pictures = {p for p in (ROOT / "docs/images").rglob("*") if p.suffix in limits}
    assert pictures == shown
    assert all(p.stat().st_size <= limits[p.suffix] for p in pictures)


def programs() -> list[object]:
    """Blocks of Python; those that open a window are long, but in the README."""
    found = []
    for page, text in blocks("python"):
        marks = [pytest.mark.long] if "napari.Viewer" in text else []
        found.append(pytest.param(page, text, marks=marks))
    return found


@pytest.mark.parametrize(("page", "text"), programs())
def test_python_runs(page: str, text: str, folder: Path) -> None:
    if "napari.Viewer" in text:
        if sys.platform.startswith("linux") and not os.environ.get("DISPLAY"):
            pytest.skip("no DISPLAY: run the tests with `python run.py test`")
        text += "\nassert viewer.layers\nviewer.close()"
    result = subprocess.run(
        [sys.executable, "-c", text],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert result.returncode == 0, f"{page}\n{text}\n{result.stderr}"


def commands() -> list[str]:
    """Lines of shell blocks that call us."""
    lines = [line for _, text in blocks("sh") for line in text.splitlines()]
    return [line for line in lines if line.startswith("napari-ngff ")]


@pytest.mark.parametrize("line", commands())
def test_commands_parse(line: str) -> None:
    cli._make_parser().parse_args(shlex.split(line, comments=True)[1:])


@pytest.mark.parametrize(("page", "text"), blocks("console"))
def test_output_is_what_the_page_shows(
    page: str,
    text: str,
    untouched: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(untouched)
    command, expected = text.split("\n", 1)
    program, *arguments = shlex.split(command.removeprefix("$ "))
    assert program == "napari-ngff"
    assert cli.main(arguments) == 0
    out = capsys.readouterr().out
    assert out.replace(str(untouched), "/data") == expected
