"""A real server of S3 on this computer, and buckets in it.

What tests put and look at goes by boto3, which nothing of ours reads or writes with.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs

import pytest

boto3 = pytest.importorskip("boto3", reason="needs the group [test]")

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@dataclass(frozen=True)
class Asked:
    """A request that came to the server.

    Attributes
    ----------
    method, path
        Of HTTP; the path has no query.
    query
        Name -> values.
    is_signed
        Whether it has credentials.
    headers
        Those with conditions and ranges, such as ``IF_MATCH``.
    """

    method: str
    path: str
    query: dict[str, list[str]]
    is_signed: bool
    headers: dict[str, str]

    @property
    def name(self):
        """What it asks for, as S3 calls it."""
        if self.method == "GET" and "list-type" in self.query:
            return "list"
        if "uploads" in self.query or "uploadId" in self.query:
            return "begin" if self.method == "POST" else "abort"
        if self.method == "PUT" and "X_AMZ_COPY_SOURCE" in self.headers:
            return "copy"
        return self.method.lower()


@dataclass
class Buckets:
    """The buckets of a server.

    Attributes
    ----------
    client
        Of boto3.
    asked
        Requests that came by others than `client`.
    answer
        Returns a status, or a status, headers and a body, to answer a request with, in
        place of what the server has; or None. It may also wait.
    deny_missing
        Answer 403 for objects that are not there, as buckets that nobody may list.
    """

    client: object
    address: str
    asked: list[Asked] = field(default_factory=list)
    answer: object = staticmethod(lambda asked: None)
    deny_missing: bool = False

    def mkdir(self, bucket):
        self.client.create_bucket(Bucket=bucket)

    def makedirs(self, bucket, exist_ok=False):
        self.mkdir(bucket)

    def pipe(self, path, data, **more):
        bucket, _, key = split(path)
        self.client.put_object(Bucket=bucket, Key=key, Body=data, **more)

    def cat(self, path):
        bucket, _, key = split(path)
        return self.client.get_object(Bucket=bucket, Key=key)["Body"].read()

    def find(self, path):
        """Paths of all objects below a folder."""
        bucket, _, prefix = split(path.rstrip("/"))
        pages = self.client.get_paginator("list_objects_v2")
        found = pages.paginate(Bucket=bucket, Prefix=f"{prefix}/" if prefix else "")
        return sorted(
            f"{bucket}/{one['Key']}"
            for page in found
            for one in page.get("Contents", ())
        )

    def exists(self, path):
        bucket, _, key = split(path)
        if not key:
            return bucket in {b["Name"] for b in self.client.list_buckets()["Buckets"]}
        return path.split("://")[-1] in self.find(path.rpartition("/")[0])

    def rm(self, path, recursive=False):
        bucket, _, key = split(path)
        for one in self.find(path) if recursive else [path]:
            self.client.delete_object(Bucket=bucket, Key=split(one)[2])
        if not key:
            self.client.delete_bucket(Bucket=bucket)

    def put(self, source, target, recursive=False, **more):
        """Put a file, or all files of a folder."""
        source, target = Path(source), target.rstrip("/")
        if source.is_file():
            self.pipe(target, source.read_bytes(), **more)
        for file in source.rglob("*"):
            if file.is_file():
                inner = file.relative_to(source).as_posix()
                self.pipe(f"{target}/{inner}", file.read_bytes(), **more)

    def get(self, source, target, recursive=True):
        """Copy all files of a folder to the disk."""
        base = split(source.rstrip("/"))
        for path in self.find(source):
            file = Path(target, path[len(f"{base[0]}/{base[2]}/") :])
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self.cat(path))


def split(path):
    return path.split("://")[-1].partition("/")


class Watched:
    """The application of a server, which notes what it is asked."""

    def __init__(self, application):
        self.application = application
        self.buckets = None
        self.putting = threading.Lock()

    def __call__(self, environment, start):
        names = {n[5:]: v for n, v in environment.items() if n.startswith("HTTP_")}
        if "Boto3" in names.get("USER_AGENT", ""):
            return self.application(environment, start)
        asked = Asked(
            environment["REQUEST_METHOD"],
            environment["PATH_INFO"].encode("latin-1").decode(),
            parse_qs(environment["QUERY_STRING"], keep_blank_values=True),
            "AUTHORIZATION" in names,
            names,
        )
        self.buckets.asked.append(asked)
        told = self.buckets.answer(asked)
        if told is not None:
            status, headers, *body = told if isinstance(told, tuple) else (told, {})
            body = b"".join(body)
            environment["wsgi.input"].read(int(environment.get("CONTENT_LENGTH") or 0))
            length = "Content-Length", str(len(body))
            start(f"{status} As Told", [length, *headers.items()])
            return [body]

        def begin(status, headers, *more):
            if self.buckets.deny_missing and status.startswith("404"):
                status = "403 Forbidden"
            return start(status, headers, *more)

        if asked.method != "PUT":
            return self.application(environment, begin)
        # A server of S3 compares and puts in one step; this one would let two pass.
        with self.putting:
            return self.application(environment, begin)


def connect(address):
    """Return the buckets of a server, which may be another process."""
    client = boto3.client("s3", endpoint_url=address)
    return Buckets(client, address)


@contextmanager
def bucket_server():
    """Start a server; yields its `Buckets`."""
    pytest.importorskip("obstore")
    moto = pytest.importorskip("moto.moto_server.threaded_moto_server")
    make, made = moto.DomainDispatcherApplication, []

    def make_watched(*given):
        made.append(Watched(make(*given)))
        return made[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moto, "DomainDispatcherApplication", make_watched)
        server = moto.ThreadedMotoServer(port=0, verbose=False)
        server.start()
        address = f"http://127.0.0.1:{server.get_host_and_port()[1]}"
        for name, value in (ENVIRONMENT | {"AWS_ENDPOINT_URL": address}).items():
            patch.setitem(os.environ, name, value)
        made[0].buckets = connect(address)
        yield made[0].buckets
        made[0].buckets.client.close()
        server.stop()
