#!/usr/bin/env python3
"""Try and test napari-ngff from a checkout; needs nothing but Python.

    python run.py demo             open a generated plate in napari
    python run.py test [ARGS]      run the test suite; ARGS go to pytest; `--long` adds
                                   the tests that take long, `-n auto` shares the
                                   tests out among two or more processes
    python run.py docs             build the site of docs/ into build/site; open
                                   build/site/index.html in a browser

`demo` and `test` keep a virtual environment in `.venv`, `docs` in `.venv-docs`. On a
machine without a display `demo` writes `demo/plate.png` instead. Missing system
packages are installed with apt-get when root; otherwise the command to type is printed.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
# Another release or another binding of Qt can be tested: NAPARI="napari[pyside6]"; and
# the newest pre-release, in an environment of its own: NAPARI=--pre.
NAPARI = os.environ.get("NAPARI", "napari[pyqt6]")
if NAPARI == "--pre":
    NAPARI, VENV = "napari[pyqt6]>=0.9.0a0", ROOT / ".venv-pre"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PLUGIN = ("--editable", ".[remote]", NAPARI)
DEMO = ROOT / "demo"
LINUX = sys.platform.startswith("linux")
WAYLAND = {"WAYLAND_DISPLAY", "XDG_SESSION_TYPE"}

# What PyQt6's wheel leaves to the system, and the Debian packages that have it.
LIBRARIES = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libX11-xcb.so.1": "libx11-xcb1",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    "libxkbcommon.so.0": "libxkbcommon0",
}


def fail(message: str) -> NoReturn:
    """End with one line on stderr and exit code 1."""
    sys.exit(f"run.py: {message}")


def run(*command: str | Path, env: dict[str, str] | None = None) -> int:
    """Run in the checkout, wait to the end even through Ctrl+C, give the exit code."""
    with subprocess.Popen(command, cwd=ROOT, env=env) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            # The terminal has sent it the same signal: let it report and clean up.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            raise
        finally:
            process.kill()


def need_system(headless: bool) -> None:
    """Install the Debian packages that are missing, or say which they are."""
    missing = {}
    if importlib.util.find_spec("ensurepip") is None:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        missing["ensurepip"] = f"python{version}-venv"
    programs = {"Xvfb": "xvfb"} if headless else {}
    if os.environ.get("CI"):
        programs["xdotool"] = "xdotool"  # elsewhere its tests are left out
    missing |= {name: programs[name] for name in programs if not shutil.which(name)}
    for library, package in LIBRARIES.items():
        try:
            ctypes.CDLL(library)
        except OSError:
            missing[library] = package
    if not missing:
        return
    packages = sorted(missing.values())
    if shutil.which("apt-get") is None:
        fail(f"please install {', '.join(sorted(missing))} with your package manager")
    if os.geteuid() != 0:
        fail(
            "please run: sudo apt-get update && "
            f"sudo apt-get install -y --no-install-recommends {' '.join(packages)}"
        )
    print(f"Installing system packages: {' '.join(packages)}", flush=True)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ("install", "-qq", "--no-install-recommends", "-o", "Dpkg::Use-Pty=0")
    if run("apt-get", "update", "-qq", env=env):
        fail("apt-get update failed: see above")
    if run("apt-get", *install, *packages, env=env):
        fail("apt-get install failed: see above")


def need_packages(*wanted: str, venv: Path = VENV) -> Path:
    """Bring an environment to what pip is asked for, unless it has that; its Python.

    The tests want more than the demo, which comes first: their stamp holds for both.
    """
    digest = hashlib.sha256(repr(sys.version_info[:2]).encode())
    digest.update((ROOT / "pyproject.toml").read_bytes())
    digest.update(Path(__file__).read_bytes())
    current = " ".join([digest.hexdigest(), *wanted])
    stamp = venv / "run-py-installed"
    installed = stamp.read_text() if stamp.exists() else ""
    python = venv / BIN.name / ("python.exe" if os.name == "nt" else "python")
    if python.exists() and installed.startswith(current):
        return python
    pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check")
    print(f"Installing into {venv}: some minutes the first time", flush=True)
    probe = [*pip, "--version"]
    usable = python.exists() and not subprocess.call(probe, stdout=subprocess.DEVNULL)
    if not usable and run(sys.executable, "-m", "venv", venv):
        fail(f"could not make {venv}: delete it and try again")
    # Debian 12 has pip 23; dependency groups came with 25.1. Python compiles what it
    # imports: to compile all that is installed takes as long as the rest.
    install = (*pip, "install", "--no-compile")
    if run(*install, "pip>=25.1") or run(*install, *wanted):
        fail("pip could not install what pyproject.toml asks for: see above")
    stamp.write_text(current)
    return python


@contextlib.contextmanager
def display() -> Iterator[str]:
    """Start an X server without a screen on a free number; yields its name."""
    out, into = os.pipe()
    command = ["Xvfb", "-displayfd", str(into), "-screen", "0", "1600x1000x24"]
    with tempfile.TemporaryFile("w+") as log, open(out) as number:
        server = subprocess.Popen(
            [*command, "-nolisten", "tcp", "-noreset"],
            pass_fds=[into],
            stderr=log,
            start_new_session=True,  # Ctrl+C must reach its clients before it
        )
        os.close(into)
        try:
            name = number.readline().strip()
            if not name:
                log.seek(0)
                lines = log.read().split("\n")
                fail(f"Xvfb did not start: {next(filter(None, lines[::-1]), '')}")
            yield f":{name}"
        finally:
            server.terminate()
            server.wait()


@contextlib.contextmanager
def environment(headless: bool, displays: int = 1) -> Iterator[dict[str, str]]:
    """Environment of a napari that leaves the user's settings alone.

    Of several displays the first is the one in use; `TEST_DISPLAYS` names them all.
    """
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="napari-ngff-"))
        env = {"XDG_RUNTIME_DIR": folder, **os.environ}
        env["NAPARI_CONFIG"] = str(Path(folder, "settings.yaml"))
        if headless:
            # Both lead PyOpenGL away from X11, even when empty.
            env = {key: env[key] for key in env.keys() - WAYLAND}
            names = [stack.enter_context(display()) for _ in range(displays)]
            env["DISPLAY"] = names[0]
            env["TEST_DISPLAYS"] = " ".join(names)
            env["QT_QPA_PLATFORM"] = "xcb"
            env["LIBGL_ALWAYS_SOFTWARE"] = "1"
            env.setdefault("LP_NUM_THREADS", "0")  # draw where no thread is waited for
        yield env


@contextlib.contextmanager
def fast_folder() -> Iterator[dict[str, str]]:
    """Variables that put temporary files into memory, if there is much of it.

    Tests write hundreds of thousands of small files and wait for disks again and again.
    """
    memory = Path("/dev/shm")
    needed = 6 << 30  # bytes: a run had a third of it at its peak
    if not memory.is_dir() or shutil.disk_usage(memory).free < needed:
        yield {}
        return
    prefix = "napari-ngff-tests-"
    with tempfile.TemporaryDirectory(
        prefix=prefix, dir=memory, ignore_cleanup_errors=True
    ) as folder:
        # Some tests become another user, who has to get in.
        os.chmod(folder, 0o755)
        yield {"TMPDIR": folder}


def demo(arguments: list[str]) -> int:
    """Open the generated plate, or picture it where there is no display."""
    headless = LINUX and not any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    if LINUX:
        need_system(headless)
    need_packages(*PLUGIN)
    picture = None
    if headless and "--screenshot" not in arguments:
        picture = DEMO / "plate.png"
        picture.unlink(missing_ok=True)
        arguments = [*arguments, "--screenshot", str(picture)]
    with environment(headless) as env:
        code = run(BIN / "napari-ngff", "demo", DEMO, *arguments, env=env)
    if picture and not code:
        if not picture.exists():
            fail(f"napari ended without writing {picture}")
        print(f"There is no display; see the picture in {picture}")
    return code


def test(arguments: list[str]) -> int:
    """Run pytest; on Linux with displays of its own, so that no window pops up.

    Processes meet on one display: pointer, focus and clipboard. So each has its own.
    """
    # More than two processors: tests in a window wait for a third of their time.
    processes = 4
    if not set(arguments) - {"--long"}:
        arguments += ["-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder"]
    if LINUX:
        need_system(headless=True)
    python = need_packages(*PLUGIN, "--group", "test")
    with environment(LINUX, processes) as env, fast_folder() as folder:
        env |= folder
        env["PYTEST_XDIST_AUTO_NUM_WORKERS"] = str(processes)
        env["NAPARI_ENSURE_PLUGIN_MAIN_THREAD"] = "1"
        # A hundred processes import the package: compiled once.
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        return run(python, "-m", "pytest", *arguments, env=env)


def docs(arguments: list[str]) -> int:
    """Build the site of the documentation; its code is read, not imported."""
    python = need_packages("--group", "docs", venv=ROOT / ".venv-docs")
    return run(python, "-m", "mkdocs", *(arguments or ["build"]))


def main() -> int:
    """Do what the command line asks; gives the exit code."""
    if sys.version_info < (3, 11):
        fail(f"needs Python 3.11 or later, this is {sys.version.split()[0]}")
    commands = {"demo": demo, "test": test, "docs": docs}
    name, *arguments = sys.argv[1:] or ["--help"]
    if name not in commands:
        print(__doc__)
        return 0 if name in ("-h", "--help") else 2
    for terminating in filter(None, (signal.SIGTERM, getattr(signal, "SIGHUP", None))):
        signal.signal(terminating, lambda number, _: sys.exit(128 + number))
    try:
        return commands[name](arguments)
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        fail(str(error))


if __name__ == "__main__":
    sys.exit(main())
