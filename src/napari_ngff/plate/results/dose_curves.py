"""Dose-response curves with four parameters, and EC50 with its confidence interval.

The response to a dose d is ``left + (right - left) / (1 + (ec50 / d) ** slope)``, with
``slope > 0``, so that `left` is the plateau at low doses: DeLean, Munson & Rodbard
(1978), Am. J. Physiol. 235, E97-E102, doi:10.1152/ajpendo.1978.235.2.E97.

A plateau counts as reached if a dose is beyond the bend of the curve: Sebaugh & McCray
(2003), Pharm. Stat. 2, 167-174. Whether there is a curve at all is told by an F test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares
from scipy.special import expit
from scipy.stats import f, t

LEAST_DOSES = 5  # fewer doses above 0 have no fit
BEND = 1 / (1 + 4.6805)  # part of the way between the plateaus at which a curve bends


@dataclass(frozen=True, slots=True)
class DoseFit:
    """The curve of one compound.

    Attributes
    ----------
    text
        EC50 and its interval, or why there is no fit.
    ec50
        It, and the ends of its confidence interval of 95 %; () without a fit.
    parameters
        Plateaus at low and high doses, the logarithm of EC50 to base 10, and the slope;
        () without a fit.
    """

    text: str
    ec50: tuple[float, ...] = ()
    parameters: tuple[float, ...] = ()


def compute_responses(parameters: Any, logs: Any) -> Any:
    """Compute the responses to the logarithms of doses; see `DoseFit`."""
    left, right, middle, slope = parameters
    return left + (right - left) * expit(np.log(10) * slope * (logs - middle))


def fit_curve(doses: Any, values: Any) -> DoseFit:
    """Fit a curve by least squares on the logarithms of doses.

    A dose of 0 counts exactly, as the limit of the curve at low doses.
    Negative doses, and missing doses or values, do not count.

    Parameters
    ----------
    doses, values
        Of each well.
    """
    doses, values = np.asarray(doses, float), np.asarray(values, float)
    # Sums of larger numbers are not finite.
    counts = np.isfinite(doses) & (np.abs(values) < 1e300) & (doses >= 0)
    doses, values = doses[counts], values[counts]
    tested = np.unique(doses[doses > 0])
    if len(tested) < LEAST_DOSES:
        return DoseFit(f"no fit: {len(tested)} doses, of {LEAST_DOSES} that it takes")
    base, span = values.min(), np.ptp(values)
    if span == 0:
        return DoseFit("no fit: all values are equal")
    with np.errstate(divide="ignore"):  # that of 0 is minus infinity
        logs = np.log10(doses)
    unit, (low, high) = (values - base) / span, np.log10(tested[[0, -1]])
    ends = unit[logs <= low].mean(), unit[logs == high].mean()

    def miss(parameters: Any) -> Any:
        return compute_responses(parameters, logs) - unit

    places = [
        (x, slope) for x in np.linspace(low, high, 24) for slope in (0.5, 1, 2, 4)
    ]
    start = min(((*ends, *x) for x in places), key=lambda x: np.sum(miss(x) ** 2))
    bounds = [-1, -1, low - 2, 0.1], [2, 2, high + 2, 10]
    found, free = least_squares(miss, start, bounds=bounds), len(unit) - 4
    left, right, middle, slope = map(float, found.x)
    noise, margin = max(2 * found.cost / free, 1e-30), np.inf
    gain = (np.sum((unit - unit.mean()) ** 2) - 2 * found.cost) / 3
    # Parameters at a bound are not determined.
    if np.linalg.matrix_rank(found.jac) == 4 and not found.active_mask.any():
        spread = np.linalg.norm(np.linalg.pinv(found.jac)[2])
        margin = float(t.ppf(0.975, free) * np.sqrt(noise) * spread)
    parts = compute_responses((0, 1, middle, slope), logs)
    failures = {
        "no fit: values do not depend on the dose": f.sf(gain / noise, 3, free) > 0.05,
        "no fit: it does not converge": not found.success,
        f"EC50 is above the highest dose, {tested[-1]:g}": middle > high,
        f"EC50 is below the lowest dose, {tested[0]:g}": middle < low,
        "no fit: no plateau is reached at low doses": parts.min() > BEND,
        "no fit: no plateau is reached at high doses": parts.max() < 1 - BEND,
        "no fit: the doses do not determine EC50": not margin < high - low,
    }
    failure = next((text for text, holds in failures.items() if holds), "")
    if failure:
        return DoseFit(failure)
    ec50 = tuple(10.0**x for x in (middle, middle - margin, middle + margin))
    text = "EC50 {:.3g} ({:.3g} to {:.3g})".format(*ec50)
    plateaus = (float(base + span * x) for x in (left, right))
    return DoseFit(text, ec50, (*plateaus, middle, slope))
