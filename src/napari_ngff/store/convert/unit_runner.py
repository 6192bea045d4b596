"""Runs units of work: by threads here, or by any scheduler of dask.

Units are taken from an iterator while others run, a few for each worker, so that the
scheduler never has more than some hundred tasks. What a lost worker had is done again.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeVar

from napari_ngff.addresses import is_url
from napari_ngff.errors import AccessError, OMEZarrError, UnsupportedError
from napari_ngff.store.threads import CORES, share_work

Unit = TypeVar("Unit")
Result = TypeVar("Result")

PER_WORKER = 4
"""Units that wait or run for each thread of the workers."""

WAIT = 10
"""Seconds to wait for a scheduler."""

MISSING = (
    "A cluster of dask needs the package distributed. Run:"
    " pip install 'napari-ngff[distributed]'"
)

PROCESSES = ("processes", "multiprocessing")
"""Names of the scheduler of dask that starts processes."""

MANY = 2**31


def run_units(
    units: Iterator[Unit],
    work: Callable[[Unit], Result],
    done: Callable[[Unit, Result], None],
    scheduler: Any = None,
) -> None:
    """Do all units, and pass each result on.

    Parameters
    ----------
    units
        Taken one at a time.
    work
        A function that workers can import.
    done
        Called with a unit and its result; never at once by two threads. An error that
        it raises stops all.
    scheduler
        None for threads of this process; the address of a scheduler ("tcp://..."), a
        ``distributed.Client``, or a name or function that ``dask.compute`` takes.

    Raises
    ------
    AccessError
        Where there is no such scheduler, or its workers fail.
    UnsupportedError
        Where distributed is not installed, or there are no workers.
    """
    if scheduler is None:
        turn = threading.Lock()

        def do_unit(unit: Unit) -> None:
            result = work(unit)
            with turn:
                done(unit, result)

        share_work(units, do_unit, MANY, CORES)
    elif is_url(scheduler):
        with open_client(scheduler) as client:
            _run_by_client(client, units, work, done)
    elif hasattr(scheduler, "submit"):
        _run_by_client(scheduler, units, work, done)
    else:
        _run_by_dask(scheduler, units, work, done)


def _run_by_dask(
    scheduler: Any,
    units: Iterator[Unit],
    work: Callable[[Unit], Result],
    done: Callable[[Unit, Result], None],
) -> None:
    from dask.base import compute
    from dask.delayed import delayed

    step = delayed(work, pure=False)
    with _keep_processes(scheduler):
        while batch := list(itertools.islice(units, CORES * PER_WORKER)):
            # The units are plain values: dask must not look for tasks in them.
            tasks = [step(delayed(unit, pure=False, traverse=False)) for unit in batch]
            for unit, result in zip(
                batch, compute(*tasks, scheduler=scheduler), strict=True
            ):
                done(unit, result)


@contextmanager
def _keep_processes(scheduler: Any) -> Iterator[None]:
    """Let all batches use the same processes, which dask would start for each."""
    from dask import config
    from dask.multiprocessing import get_context

    if scheduler not in PROCESSES or config.get("pool", None) is not None:
        yield
        return
    number = config.get("num_workers", None) or CORES
    with (
        ProcessPoolExecutor(number, mp_context=get_context()) as pool,
        config.set(pool=pool),
    ):
        yield


@contextmanager
def open_client(address: str) -> Iterator[Any]:
    """Connect to a scheduler of dask.

    Raises
    ------
    AccessError
        Where there is none.
    UnsupportedError
        Where distributed is not installed.
    """
    if find_spec("distributed") is None:
        raise UnsupportedError(MISSING)
    from distributed import Client

    try:
        # Not the default: other code of this process keeps its own scheduler.
        client = Client(address, timeout=WAIT, set_as_default=False)
    except (OSError, ValueError) as error:
        msg = f"No scheduler of dask answers at {address}: {error}."
        raise AccessError(msg) from error
    with client:
        yield client


def count_threads(client: Any) -> int:
    """Count the threads of all workers.

    Raises
    ------
    UnsupportedError
        Where there are no workers.
    """
    threads: int = sum(client.nthreads().values())
    if not threads:
        msg = f"The scheduler at {client.scheduler.address} has no workers."
        raise UnsupportedError(msg)
    return threads


@contextmanager
def name_worker_errors(client: Any) -> Iterator[None]:
    """Name the scheduler in errors of workers that are not those of the work.

    Workers that died, lack this package or were cancelled raise errors of any kind.
    """
    try:
        yield
    except (OMEZarrError, OSError, ValueError):
        raise
    except Exception as error:
        where = client.scheduler.address
        msg = f"The workers of {where} did not finish: {error}"
        raise AccessError(msg) from error


def _run_by_client(
    client: Any,
    units: Iterator[Unit],
    work: Callable[[Unit], Result],
    done: Callable[[Unit, Result], None],
) -> None:
    from distributed import wait

    most = count_threads(client) * PER_WORKER
    running: dict[Any, Unit] = {}
    with name_worker_errors(client):
        try:
            while True:
                for unit in itertools.islice(units, most - len(running)):
                    running[client.submit(work, unit, pure=False)] = unit
                if not running:
                    return
                with client.as_current():  # `wait` asks the current one
                    finished, _ = wait(list(running), return_when="FIRST_COMPLETED")
                for task in finished:
                    result = task.result()
                    done(running.pop(task), result)
        finally:
            for task in running:
                task.cancel()
