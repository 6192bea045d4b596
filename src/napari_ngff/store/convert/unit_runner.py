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
        with _connect(scheduler) as client:
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
def _connect(address: str) -> Iterator[Any]:
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


def _run_by_client(
    client: Any,
    units: Iterator[Unit],
    work: Callable[[Unit], Result],
    done: Callable[[Unit, Result], None],
) -> None:
    from distributed import wait

    threads = sum(client.nthreads().values())
    if not threads:
        msg = f"The scheduler at {client.scheduler.address} has no workers."
        raise UnsupportedError(msg)
    running: dict[Any, Unit] = {}
    try:
        while True:
            for unit in itertools.islice(units, threads * PER_WORKER - len(running)):
                running[client.submit(work, unit, pure=False)] = unit
            if not running:
                return
            with client.as_current():  # `wait` asks the current one
                finished, _ = wait(list(running), return_when="FIRST_COMPLETED")
            for task in finished:
                result = task.result()
                done(running.pop(task), result)
    except (OMEZarrError, OSError, ValueError, KeyboardInterrupt):
        raise
    # Workers that died, lack this package or were cancelled raise errors of any kind.
    except Exception as error:
        where = client.scheduler.address
        msg = f"The workers of {where} did not finish: {error}"
        raise AccessError(msg) from error
    finally:
        for task in running:
            task.cancel()
