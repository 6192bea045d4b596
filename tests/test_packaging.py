"""The manifest reaches every kind of installation.

Each goes into a fresh virtual environment that sees the packages of this one behind
its own, so that no package index is needed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
QUESTION = """
from importlib.metadata import distribution
from npe2 import PluginManifest
manifest = PluginManifest.from_distribution("napari-ngff")
manifest.validate_imports()
import napari_ngff
print(distribution("napari-ngff").locate_file("").resolve())
print(napari_ngff.__path__[0])
print(manifest.display_name, len(manifest.contributions.commands or ()))
"""

pytestmark = pytest.mark.packaging


def run(*command: str | Path) -> str:
    """Run outside the checkout; gives stdout, or fails with all that it printed."""
    result = subprocess.run(
        command, capture_output=True, text=True, cwd=Path(command[0]).parent
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A wheel and an sdist of the checkout."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["wheel", "sdist", "editable"])
def test_installation_finds_the_manifest(
    kind: str, distributions: dict[str, Path], tmp_path: Path
) -> None:
    venv.create(tmp_path, symlinks=sys.platform != "win32")
    bin_ = tmp_path / ("Scripts" if sys.platform == "win32" else "bin")
    python = bin_ / Path(sys.executable).name
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(run(python, "-c", ask).strip())
    (site / "zzz_behind.pth").write_text(sysconfig.get_path("purelib") + "\n")
    source = ["-e", ROOT] if kind == "editable" else [distributions[kind]]
    offline = ["--no-deps", "--no-index", "--no-build-isolation", "--quiet"]
    run(sys.executable, "-m", "pip", "--python", python, "install", *offline, *source)

    where, package, manifest = run(python, "-c", QUESTION).splitlines()

    assert Path(where) == site.resolve()
    expected = ROOT / "src" if kind == "editable" else site
    assert Path(package).resolve() == (expected / "napari_ngff").resolve()
    assert manifest.startswith("OME-Zarr ")


def test_wheel_holds_the_package_and_the_manifest_as_a_file(
    distributions: dict[str, Path],
) -> None:
    with zipfile.ZipFile(distributions["wheel"]) as wheel:
        names = set(wheel.namelist())
        manifest = wheel.read("napari_ngff/napari.yaml")
    assert manifest == (ROOT / "napari.yaml").read_bytes()
    assert "napari_ngff/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    tops = {name.split("/")[0].split("-")[0] for name in names}
    assert tops == {"napari_ngff"}


def test_recipe_of_conda_requires_what_the_wheel_requires() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    needed = [f"python {project['requires-python']}"]
    for line in project["dependencies"]:
        name, floor = re.fullmatch(r"([\w-]+)(?:\[\w+\])?(\S+)", line).groups()
        # Of conda, dask's arrays need no extra but for numpy, which is required.
        needed.append(f"{'dask-core' if name == 'dask' else name} {floor}")
    recipe = yaml.safe_load((ROOT / ".conda" / "recipe.yaml").read_text("utf-8"))
    assert recipe["requirements"]["run"] == needed
