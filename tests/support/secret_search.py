"""Looks for secrets in all that a session shows, logs and writes."""

from __future__ import annotations

import base64
import json
import logging
import traceback
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, quote_plus

from napari.utils.notifications import notification_manager
from qtpy.QtCore import QAbstractItemModel, QAbstractListModel
from qtpy.QtWidgets import QApplication, QLineEdit

from mouse import pump


def forms_of(secret):
    """Forms in which a secret may stand in a text: as it is, percent-encoded, base64.

    In base64 without its ends, which depend on what stands beside it.
    """
    data = secret.encode()
    found = {secret, quote(secret), quote(secret, safe=""), quote_plus(secret)}
    found |= {quote(form, safe="") for form in tuple(found)}
    found |= {json.dumps(form)[1:-1] for form in tuple(found)}
    found |= {repr(data)[2:-1]}
    for before in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            text = encode(bytes(before) + data).decode().rstrip("=")
            found.add(text[(0, 2, 3)[before] : len(text) - (len(text) % 4 != 0)])
    return found


class SecretSearch:
    """Looks for some secrets.

    Parameters
    ----------
    secrets
        The words themselves.
    """

    def __init__(self, *secrets):
        self.forms = {form for secret in secrets for form in forms_of(secret)}
        assert min(map(len, self.forms)) > 5

    def in_texts(self, texts):
        """Texts that have a secret."""
        return [text for text in texts if any(form in text for form in self.forms)]

    def in_files(self, folder):
        """Files below a folder that have a secret in their name or their content."""
        forms = [form.encode() for form in self.forms]
        return [
            path
            for path in Path(folder).rglob("*")
            for content in [path.read_bytes() if path.is_file() else b""]
            if any(form in str(path).encode() + b"\n" + content for form in forms)
        ]


class LogTexts(logging.Handler):
    """Collects all that is logged, by any logger."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.texts = []
        self.names = set()

    def emit(self, record):
        self.names.add(record.name.partition(".")[0])
        try:
            text = self.format(record)
        except TypeError:  # some messages of others do not fit their values
            text = repr((record.msg, record.args))
        self.texts.append(f"{record.name}: {text}")


@contextmanager
def all_logs():
    """Collect all logs at the lowest level; nothing else gets them meanwhile."""
    collected = LogTexts()
    root = logging.getLogger()
    loggers = [root, *(logging.getLogger(name) for name in root.manager.loggerDict)]
    before = [(one, one.level, one.disabled, one.handlers) for one in loggers]
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
        logger.disabled = False
        is_top = logger is root or not logger.propagate
        # Handlers of pytest fail a test where a message of others does not fit.
        logger.handlers = [collected] if is_top else []
    yield collected
    for logger, level, is_disabled, handlers in before:
        logger.setLevel(level)
        logger.disabled, logger.handlers = is_disabled, handlers


@contextmanager
def shown_texts(viewer):
    """Collect what a window tells: status bar, names of layers, notifications."""
    texts = []
    note_event = [
        (viewer.events.status, lambda _: texts.append(repr(viewer.status))),
        (viewer.layers.events.inserted, lambda event: texts.append(event.value.name)),
        (notification_manager.notification_ready, lambda one: texts.append(str(one))),
    ]
    for event, note in note_event:
        event.connect(note)
    yield texts
    for event, note in note_event:
        event.disconnect(note)
    texts += map(repr, notification_manager.records)
    texts += [one.as_html() for one in notification_manager.records if has_trace(one)]


def has_trace(notification):
    return hasattr(notification, "as_html")


def error_texts(error):
    """Texts of an error: with all variables of its traceback, but those of the test."""
    error = error.with_traceback(error.__traceback__.tb_next)
    trace = traceback.TracebackException.from_exception(error, capture_locals=True)
    return [repr(error), repr(vars(error)), "".join(trace.format())]


def texts_of_widgets():
    """What stands in all widgets: labels, tables, trees, tool tips, titles."""
    found = []
    for widget in QApplication.allWidgets():
        found += [widget.toolTip(), widget.windowTitle(), widget.accessibleName()]
        for name in ("text", "toPlainText", "placeholderText"):
            read = getattr(widget, name, None)
            is_typed = isinstance(widget, QLineEdit) and name == "text"
            if callable(read) and not is_typed:  # the user's own typing
                found.append(str(read()))
        model = getattr(widget, "model", None)
        found += texts_of_model(model()) if callable(model) else []
    return found


def texts_of_model(model):
    if not isinstance(model, QAbstractItemModel):
        return []
    is_list = isinstance(model, QAbstractListModel)
    rows, columns = min(model.rowCount(), 50), 1 if is_list else model.columnCount()
    return [
        str(model.data(model.index(row, column), role))
        for row in range(rows)
        for column in range(columns)
        for role in (0, 3)  # what is shown, and the tool tip
    ]


def texts_of_layers(viewer):
    """Names, metadata, sources and data of the layers, as napari and a script see."""
    found = [json.dumps([layer.metadata for layer in viewer.layers], default=repr)]
    for layer in viewer.layers:
        found += [layer.name, repr(layer.source), repr(layer.data), repr(layer)]
        levels = layer.data if layer.multiscale else [layer.data]
        graphs = [getattr(level, "dask", None) for level in levels]
        found += [repr(dict(graph)) for graph in graphs if graph is not None]
    return found


def hover(viewer):
    """Let the status bar describe each layer under the pointer."""
    for layer in viewer.layers:
        viewer.layers.selection.active = layer
        viewer.cursor.position = tuple(at + 1 for at in viewer.dims.point)
        viewer.update_status_from_cursor()
        pump(30)
