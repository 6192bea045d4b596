"""The command ``napari-ngff check``: checks metadata, and repairs what it can.

With ``--json`` it speaks the protocol of the specification's conformance tests: the
path of one document or group is the last argument, the verdict one line of JSON.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from napari_ngff.addresses import public_address
from napari_ngff.commands.command_line import FAILED, add_command, report_failure
from napari_ngff.errors import (
    CorruptDataError,
    NotOMEZarrError,
    OMEZarrError,
    error_text,
)
from napari_ngff.metadata.model import Problem, Severity
from napari_ngff.metadata.parse import parse_attributes
from napari_ngff.metadata.rules import check_attributes
from napari_ngff.store.check.repair import REPAIRS, RepairedFile, repair_problems
from napari_ngff.store.check.visit_groups import Finding, check_hierarchy
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.limits import DOCUMENTS, parse_json

MOST = 5
"""Number of problems in the message of ``--json``."""

NAMED = 3
"""Number of groups that are named if they have the same problem."""


def add_check(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to a parser of commands."""
    check = add_command(
        commands,
        "check",
        "judge by every MUST and SHOULD of OME-Zarr 0.1 to 0.6, and repair",
        run,
        description="Exit code: 0 valid, 1 not, 2 the call was wrong.",
        epilog="Repairs: "
        + "; ".join(f"{code}: {what}" for code, what in REPAIRS.items())
        + ". Each keeps a backup of what it replaces until the check passes.",
    )
    check.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        help="folder, group in it, .ozx, URL, or a JSON file of one group's attributes",
    )
    check.add_argument(
        "--strict", action="store_true", help="what breaks a SHOULD is not valid either"
    )
    check.add_argument(
        "--json", action="store_true", help="print a verdict as JSON, and exit with 0"
    )
    check.add_argument(
        "--pixels", action="store_true", help="read the ids of labels, too"
    )
    check.add_argument(
        "--fix",
        metavar="CODE",
        action="append",
        default=[],
        choices=REPAIRS,
        help="repair all problems of this code; may be given several times",
    )


def run(options: argparse.Namespace) -> int:
    """Check each path; returns the exit code."""
    valid = True
    for path in options.paths:
        try:
            findings, repaired = check_path(path, options)
        # The other paths are checked all the same.
        except (OMEZarrError, OSError) as error:
            valid = False
            if options.json:
                print(json.dumps({"valid": False, "message": error_text(error)}))
            else:
                report_failure(error)
            continue
        counted = [f for f in findings if options.strict or is_error(f)]
        valid = valid and not counted
        if options.json:
            print(json.dumps({"valid": not counted, "message": join_findings(counted)}))
        else:
            shown = public_address(path)
            print("\n".join(describe_findings(shown, findings, not counted, repaired)))
    # With --json the verdict is in the output, and 0 says that there is one (protocol
    # of the conformance tests).
    return 0 if valid or options.json else FAILED


def check_path(
    path: str, options: argparse.Namespace
) -> tuple[list[Finding], list[RepairedFile]]:
    """Repair what was asked for, and check; delete backups if the check passes."""
    file = Path(path)
    # Not "zarr.json" and the like, which stand for the group that they are in.
    if file.suffix == ".json" and file.name not in DOCUMENTS and file.is_file():
        return [("", problem) for problem in check_document(file)], []
    repaired: list[RepairedFile] = []
    # Opened anew for each: a repair changes what the next one reads.
    for code in options.fix:
        repaired += repair_problems(open_node(path), code)
    findings = list(check_hierarchy(open_node(path), pixels=options.pixels))
    if not any(map(is_error, findings)):
        for replaced in repaired:
            replaced.delete_old()
    return findings, repaired


def check_document(file: Path) -> list[Problem]:
    """Check the attributes of one group in a file of their own.

    Raises
    ------
    CorruptDataError
        Where the file is no JSON.
    NotOMEZarrError
        Where nothing of OME-Zarr is in it.
    """
    try:
        attributes = parse_json(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise CorruptDataError(f"{file} is not valid JSON: {error}.") from error
    zarr_format = 2
    if isinstance(attributes, dict):
        # A whole zarr.json under another name, as test cases have it.
        if attributes.get("node_type") == "group":
            attributes = attributes.get("attributes", {})
        zarr_format = 3 if "ome" in attributes else 2
    problems = check_attributes(attributes, zarr_format)
    # In a hierarchy a group without metadata is fine; a file by itself has to be some.
    if not problems and parse_attributes(attributes, zarr_format).kind is None:
        msg = f"{file} holds no OME-Zarr metadata of a group."
        raise NotOMEZarrError(msg)
    return list(problems)


def is_error(finding: Finding) -> bool:
    """Return whether a finding makes a hierarchy invalid."""
    return finding[1].severity is Severity.ERROR


def join_findings(findings: Sequence[Finding]) -> str | None:
    """Join findings in one line; None if there are none."""
    rows = []
    for path, problem in findings[:MOST]:
        place_text = "/".join(part for part in (path, problem.where) if part)
        text = problem.text.rstrip(".")
        rows.append(f"{problem.code} at {place_text or 'the root'}: {text}")
    if len(findings) > MOST:
        rows.append(f"{len(findings) - MOST} more")
    return "; ".join(rows) or None


def name_groups(groups: Sequence[str]) -> str:
    """Name groups as in a sentence, the first ones by their paths."""
    names = [group or "(root)" for group in groups]
    left = len(names) - NAMED
    if left < 2:
        return ", ".join(names)
    return f"{', '.join(names[:NAMED])} and {left:,} more groups"


def describe_findings(
    path: str, findings: list[Finding], valid: bool, repaired: list[RepairedFile]
) -> list[str]:
    """Describe all findings, group by group, and what was repaired."""
    # All fields of a plate have the same problem: it is described for the first one.
    places: dict[Problem, list[str]] = {}
    for group, problem in findings:
        places.setdefault(problem, []).append(group)
    firsts = [(groups[0], problem) for problem, groups in places.items()]
    lines = [path]
    # Findings come group by group, as `groupby` needs them.
    for group, group_findings in groupby(firsts, key=lambda finding: finding[0]):
        lines.append(f"  {group or '(root)'}")
        for _, problem in group_findings:
            where = f" at {problem.where}" if problem.where else ""
            text = f"{problem.text} {problem.consequence}".rstrip()
            lines.append(f"    {problem.severity} {problem.code}{where}: {text}")
            if others := places[problem][1:]:
                lines.append(f"      The same in {name_groups(others)}.")
    errors = sum(map(is_error, findings))
    verdict = "valid" if valid else "not valid"
    counts = (errors, "error"), (len(findings) - errors, "warning")
    text = ", ".join(f"{n} {word}{'' if n == 1 else 's'}" for n, word in counts)
    if findings:
        page = findings[0][1].page
        lines.append(f"Each code has a heading in the documentation, such as {page}.")
    lines.append(f"{verdict}: {text}")
    for replaced in repaired:
        kept = Path(replaced.kept)
        note = f"; backup: {kept}" if kept.exists() else ""
        lines.append(f"repaired {replaced.path}{note}")
    return lines
