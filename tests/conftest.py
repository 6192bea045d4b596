"""No test touches the settings or the data of the person who runs it.

Nor, with `-n`, the display of another process: `run.py` starts one for each.
"""

from __future__ import annotations

import atexit
import functools
import gc
import json
import math
import os
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, TracebackType

# A tenth of the time would be spent on looking for garbage, most of it in modules.
gc.set_threshold(50_000, 20, 100)

# Before anything imports napari, which reads its settings once.
_home = Path(tempfile.mkdtemp(prefix="napari-ngff-tests-"))
atexit.register(shutil.rmtree, _home, ignore_errors=True)
os.environ["NAPARI_CONFIG"] = str(_home / "settings.yaml")
for _kind in ("CONFIG", "DATA", "STATE"):
    os.environ[f"XDG_{_kind}_HOME"] = str(_home / _kind.lower())
# No test asks the keychain of the person who runs it.
os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"

# The processes that decode for us find the packages of tests.
_packages = Path(__file__).parent / "support/packages"
sys.path.append(str(_packages))
_paths = [str(_packages), os.environ.get("PYTHONPATH", "")]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, _paths))

_worker = os.environ.get("PYTEST_XDIST_WORKER", "")  # gw0, gw1, ...
_displays = os.environ.get("TEST_DISPLAYS", "").split()
if _worker and _displays:
    os.environ["DISPLAY"] = _displays[int(_worker[2:]) % len(_displays)]

# What is slow on a busy machine is not wrong.
_patient = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("patient", settings.default, **_patient)
settings.load_profile("patient")


def pytest_runtest_setup() -> None:
    """Nothing of an earlier test is found: no journals, no workers of its window.

    Labels that are painted and not saved leave a journal, also when a test ends.
    Reading in a window installs worker threads, and a place for messages, for good.
    """
    os.environ["XDG_DATA_HOME"] = tempfile.mkdtemp(dir=_home)
    module = sys.modules.get("napari_ngff.viewer.services.window")
    if module is not None:
        module.Window.current = module.Window()


@pytest.fixture(scope="session", autouse=True)
def quick_connections() -> Iterator[None]:
    """Look up once whether a function takes an event, not at each connection to it.

    napari makes a hundred connections for a layer, most of them to the same methods.
    """
    from napari.utils.events import EventEmitter

    check = EventEmitter._check_signature
    known: dict[tuple[CodeType | type, bool], bool] = {}

    def check_once(function: Callable) -> bool:
        plain = getattr(function, "__func__", function)
        code = getattr(plain, "__code__", None)
        if isinstance(function, EventEmitter):
            code = type(function)
        # What wraps different functions has one code for all of them.
        if code is None or hasattr(plain, "__wrapped__"):
            return check(function)
        key = code, plain is function
        if key not in known:
            known[key] = check(function)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EventEmitter, "_check_signature", staticmethod(check_once))
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_samples() -> Iterator[None]:
    """Draw large samples once: the images and plates of most tests are the same."""
    samples = sys.modules.get("napari_ngff.viewer.samples")
    if samples is None:
        yield
        return

    def draw_large_once(draw: Callable) -> Callable:
        kept = functools.lru_cache(maxsize=32)(draw)

        def draw_or_find(*values: Any, **named: Any) -> Any:
            size = next(value for value in values if isinstance(value, tuple))
            return (kept if math.prod(size) > 60_000 else draw)(*values, **named)

        return draw_or_find

    with pytest.MonkeyPatch.context() as patch:
        for name in ("draw_cells", "draw_frames"):
            patch.setattr(samples, name, draw_large_once(getattr(samples, name)))
        yield


@pytest.fixture(scope="session")
def quick_letters() -> Iterator[None]:
    """Draw a letter once in a process, and not for each canvas with a text on it."""
    import numpy as np

    try:
        from napari._vispy.utils import qt_font
    except ImportError:  # napari 0.8 draws them by vispy
        yield
        return
    renderer = qt_font.SDFRendererCPU
    draw, reduce = qt_font._load_glyph_qt, renderer.render_to_texture
    drawn: dict[tuple[str, str], dict] = {}

    def draw_once(font: Any, metrics: Any, letter: str, others: dict) -> None:
        key = font.key(), letter
        if key not in drawn:
            draw(font, metrics, letter, alone := {})
            drawn[key] = alone[letter]
        glyph = others[letter] = {**drawn[key], "kerning": {}}
        for name, other in others.items():
            if name != letter:
                apart = other["advance"] + glyph["advance"]
                glyph["kerning"][name] = (
                    metrics.horizontalAdvance(name + letter) - apart
                )
                other["kerning"][letter] = (
                    metrics.horizontalAdvance(letter + name) - apart
                )

    @functools.lru_cache(maxsize=1000)
    def reduce_once(shape: tuple, pixels: bytes, size: tuple) -> np.ndarray:
        small = np.zeros((*size[::-1], 3), np.uint8)
        data = np.frombuffer(pixels, np.uint8).reshape(shape)
        reduce(None, data, small, (0, 0), size)
        return small

    def put_into_texture(
        _: Any, data: np.ndarray, texture: Any, place: tuple, size: tuple
    ) -> None:
        (x, y), (width, height) = place, size
        small = reduce_once(data.shape, data.tobytes(), size)
        texture[y : y + height, x : x + width, :] = small

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(qt_font, "_load_glyph_qt", draw_once)
        patch.setattr(renderer, "render_to_texture", put_into_texture)
        yield


@pytest.fixture(scope="session")
def quick_windows() -> Iterator[None]:
    """Spare each window what needs to be done only once in a process.

    Half of the time of a short test in a window: napari collects garbage whenever a
    layer is removed, reads the manifests of all plugins, and writes its settings at
    each change of them.
    """
    import napari._qt.qt_main_window  # noqa: F401
    from napari._qt.qt_viewer import QtViewer
    from napari._qt.widgets.qt_welcome import QtWelcomeWidget
    from napari.settings import NapariSettings
    from npe2 import PluginManifest
    from vispy.gloo.program import Program

    import napari_ngff.widgets  # noqa: F401

    discover = PluginManifest.discover
    parse = Program._parse_variables_from_code
    variables: dict[tuple[str, ...], dict] = {}

    @functools.cache
    def discover_once(paths: tuple[str, ...]) -> list:
        return list(discover(paths=paths))

    def parse_shader_once(program: Program, update_variables: bool = True) -> None:
        code = tuple(shader.code for shader in program._shaders)
        if code not in variables:
            parse(program, update_variables)
            variables[code] = dict(program._code_variables)
            return
        program._code_variables = dict(variables[code])
        if update_variables:
            program._process_pending_variables()

    def collect_after_window(generation: int = 2) -> int:
        """Collect all where a window is still there, and not for each 50th test."""
        return gc.collect(generation if QtViewer._instances else 1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            PluginManifest,
            "discover",
            lambda paths=(): iter(discover_once(tuple(paths))),
        )
        patch.setattr(NapariSettings, "_maybe_save", lambda *_, **__: None)
        # For drivers of Windows; `make_napari_viewer` collects when a window closes.
        no_collection = SimpleNamespace(collect=lambda: None)
        patch.setattr("napari._vispy.canvas.gc", no_collection)
        less_collection = SimpleNamespace(collect=collect_after_window)
        patch.setattr("napari.utils._testsupport.gc", less_collection)
        patch.setattr(Program, "_parse_variables_from_code", parse_shader_once)
        # Of a screen that is not shown, after each of 180 keys that a window binds.
        patch.setattr(QtWelcomeWidget, "refresh", lambda screen, event=None: None)
        yield


@pytest.fixture
def around() -> Iterator[pytest.MonkeyPatch]:
    """Patches of what is around a test, which stay where it undoes its own."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture
def monkeypatch(around: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Patches of the test itself, undone before those around it."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(autouse=True)
def unexpected(around: pytest.MonkeyPatch) -> Iterator[list[BaseException]]:
    """Fail a test that makes work go on after an error, unless it looks for that one.

    Gives these errors, which a test that expects them takes out.
    """
    module = sys.modules.get("napari_ngff.viewer.services.window")
    errors: list[BaseException] = []
    if module is not None:
        manager = module.notification_manager

        def note_error(kind: type, error: BaseException, trace: TracebackType) -> None:
            errors.append(error)
            manager.receive_error(kind, error, trace)

        noting = SimpleNamespace(receive_error=note_error, dispatch=manager.dispatch)
        around.setattr(module, "notification_manager", noting)
    yield errors
    if errors:
        raise errors[0]


@pytest.fixture(autouse=True)
def no_name_is_lost() -> Iterator[None]:
    """Fail a test in which napari lacks a private name that is used."""
    yield
    module = sys.modules.get("napari_ngff.viewer.private.lost")
    if module is not None and module.lost:
        lost = dict(module.lost)
        module.lost.clear()
        pytest.fail(f"napari lacks {lost}")


@pytest.fixture(autouse=True)
def no_disk_cache(around: pytest.MonkeyPatch) -> None:
    """Read each chunk from its server, whatever was read before."""
    from napari_ngff.viewer.services import settings

    widgets = sys.modules.get("napari_ngff.widgets.installation")
    for module in filter(None, (settings, widgets)):
        around.setattr(module, "apply_disk_cache", lambda: None)


@pytest.fixture(autouse=True)
def no_saves_of_others() -> Iterator[None]:
    """Forget padlocks and saves into labels of others, which a process notes.

    Only a window offers to undo such a save, and begins so with its first layer.
    """
    yield
    owners = sys.modules.get("napari_ngff.viewer.layers.label_owners")
    if owners is not None:
        owners._locked.clear()
        owners._saved.clear()
        owners.first_saved.disconnect()


@pytest.fixture
def no_logins(around: pytest.MonkeyPatch) -> None:
    """Begin without logins of earlier tests, and ask servers only once."""
    from locked_server import begin_without_logins

    begin_without_logins(around)


@pytest.fixture
def keychain(around: pytest.MonkeyPatch) -> dict[tuple[str, str], str]:
    """A keychain in memory: its entries, by service and name."""
    from locked_server import FakeKeychain

    module = FakeKeychain()
    around.setitem(sys.modules, "keyring", module)
    around.setitem(sys.modules, "keyring.errors", module.errors)
    return module.kept


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the tests be chosen that take long."""
    parser.addoption(
        "--long", action="store_true", help="also run tests with the marker 'long'"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave out what takes long; begin with the files that take longest of the rest.

    So that no process waits for another in the end.
    """
    named = any("::" in argument for argument in config.args)
    if not named and not config.getoption("lf", False):
        _check_default_cases(items)
    if not config.getoption("long") and not named:
        config.hook.pytest_deselected(items=[one for one in items if _is_long(one)])
        items[:] = [item for item in items if not _is_long(item)]
        _draw_fewer_examples(items)
    # Cases, too, so that `-m long` means all of them.
    for item in filter(_is_long, items):
        if item.get_closest_marker("long") is None:
            item.add_marker("long")
    seconds: dict[Path, float] = defaultdict(float)
    known = _known_seconds(config)
    # In a new checkout nothing is known of single tests, but of files.
    rough = json.loads(FILE_SECONDS.read_text())
    tests = Counter(item.path for item in items)
    for item in items:
        name = item.path.relative_to(config.rootpath).as_posix()
        guess = 3.0 if item.get_closest_marker("slow") else 0.02
        if name in rough:
            guess = rough[name] / tests[item.path]
        long = item.get_closest_marker("long")
        guess = long.kwargs.get("seconds", 20.0) if long is not None else guess
        seconds[item.path] += known.get(item.nodeid, guess)
    items.sort(key=lambda item: -seconds[item.path])


def pytest_collection_finish() -> None:
    """Look for garbage in what tests make, and not in modules and tests themselves."""
    gc.collect()
    gc.freeze()


def _draw_fewer_examples(items: list[pytest.Item]) -> None:
    """Let random tests try a third of what they try with `--long`."""
    for test in {getattr(item, "obj", None) for item in items}:
        name = "_hypothesis_internal_use_settings"  # of hypothesis 6
        usual = getattr(test, name, None)
        if usual is not None and usual.max_examples > 20:
            fewer = settings(usual, max_examples=usual.max_examples // 3)
            setattr(test, name, fewer)


def _case_of(item: pytest.Item) -> str:
    return item.name.partition("[")[2].removesuffix("]")


def _is_long(item: pytest.Item) -> bool:
    usual = item.get_closest_marker("default_cases")
    is_other = usual is not None and _case_of(item) not in usual.args
    return is_other or item.get_closest_marker("long") is not None


def _check_default_cases(items: list[pytest.Item]) -> None:
    """Refuse names of cases that there are not: nothing would stand for the others."""
    missing = {}
    for item in items:
        usual = item.get_closest_marker("default_cases")
        if usual is not None:
            test = item.nodeid.partition("[")[0]
            missing.setdefault(test, set(usual.args)).discard(_case_of(item))
    wrong = [
        f"{test} has no {sorted(names)}" for test, names in missing.items() if names
    ]
    if wrong:
        raise pytest.UsageError("\n".join(("No such default cases:", *wrong)))


FILE_SECONDS = Path(__file__).parent / "support" / "file_seconds.json"
"""Seconds of files of tests in one run; they order the first run of a checkout.
Written by `note_seconds.py` beside it."""

_seconds: dict[str, float] = defaultdict(float)


def _record_of(config: pytest.Config) -> Path:
    """File with how many seconds each test took the last time."""
    return config.rootpath / ".pytest_cache" / "durations.json"


def _known_seconds(config: pytest.Config) -> dict[str, float]:
    try:
        return dict(json.loads(_record_of(config).read_text()))
    except (OSError, ValueError):
        return {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note how long a test takes, with what is prepared for it."""
    _seconds[report.nodeid] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write down what each test took, the longest first."""
    if not _seconds or _worker:
        return
    found = {**_known_seconds(session.config), **_seconds}
    ranked = sorted(found.items(), key=lambda one: -one[1])
    record = _record_of(session.config)
    record.parent.mkdir(exist_ok=True)
    record.write_text(
        json.dumps({name: round(took, 2) for name, took in ranked}, indent=0)
    )
