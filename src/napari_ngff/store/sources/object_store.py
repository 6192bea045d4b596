"""The objects of a bucket, read and written through obstore."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Coroutine
from configparser import ParsingError, RawConfigParser
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotModifiedError,
    PreconditionError,
)

from napari_ngff.errors import UnsupportedError
from napari_ngff.store.sources.blob import Blob, Revision
from napari_ngff.store.sources.file_part import (
    FilePart,
    FileVersion,
    ObjectRequest,
    ServerAccess,
    too_long_error,
)
from napari_ngff.store.sources.request_failure import (
    FORBIDDEN,
    ChangedObjectError,
    HttpAnswerError,
    NoCredentialsError,
)

if TYPE_CHECKING:
    from napari_ngff.store.sources.server_logins import AddressSecrets

KINDS = {
    "s3": obstore.store.S3Store,
    "gs": obstore.store.GCSStore,
    "az": obstore.store.AzureStore,
}
"""By the scheme of addresses."""

ENDPOINT = "aws_endpoint_url_s3"
KEYS = "access_key_id", "secret_access_key", "session_token"
"""Names of options of obstore."""

NAMES = {
    "key": "access_key_id",
    "secret": "secret_access_key",
    "token": "session_token",
    "anon": "skip_signature",
    "endpoint_url": ENDPOINT,
    "region_name": "region",
    "requester_pays": "request_payer",
}
"""Names of options that s3fs and botocore made usual -> those of obstore."""

IN_PROFILE = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
    "endpoint_url": ENDPOINT,
    "region": "region",
}
"""Names in the files of AWS -> those of obstore."""

FILES = (
    ("AWS_CONFIG_FILE", "config"),
    ("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
)
"""Variables that name the files of AWS, and their usual names."""

NOBODY = {"credential_provider": dict}
"""Without it, incomplete keys of the environment would be an error."""

KEY_VARIABLES = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
"""Those of `KEYS`."""

SYSTEM = (
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
)
"""Variables from which obstore gets credentials by itself."""

SETTINGS = "AWS_", "AZURE_", "GOOGLE_"
"""How variables begin by which buckets are asked."""

STATUS = re.compile(r"status code: (\d{3}) ([\w' -]*)")
CODE = re.compile(r"<Code>(\w+)</Code>")
KIND = re.compile(r"HttpError \{\s*kind: (\w+)")
"""Parts of the texts of errors, in which obstore states what it has no kinds for."""

REFUSALS = {"ExpiredToken", "InvalidToken", "TokenRefreshRequired"}
"""Codes of refused credentials that S3 sends with the answer 400."""

NOT_FOUND, CONFLICT, NOT_IN_OBJECT = 404, 409, 416

ELSEWHERE = "incorrectly configured region", "AuthorizationHeaderMalformed"
"""Parts of the texts of errors: the bucket is in another region."""

AWS = "https://s3.{}.amazonaws.com"
"""Where the buckets of a region are, unless there is an endpoint."""

VARIABLES = {
    ENDPOINT: ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
}
"""Option -> variables, the first of which that is set counts."""

Content = TypeVar("Content")

Ask = Callable[[Any], Coroutine[Any, Any, Content]]
"""Asks by a store of obstore."""

_opened: dict[tuple[Any, ...], ObjectStore] = {}

_locked: set[tuple[str, str]] = set()
"""Buckets that are read with credentials alone, and the options that have these."""

_regions: dict[tuple[str, str], str] = {}
"""Bucket and `place` -> region, of those that were looked for in another one."""


class ObjectStore(ServerAccess):
    """A bucket: read as anyone may, and with credentials where that is refused.

    Wrong credentials of the environment do not make public data unreadable, and those
    that read them once are not left out again.

    Parameters
    ----------
    server
        Scheme and bucket.
    secrets
        Of an address. Their options are those of obstore, or those of s3fs that have
        other names; ``profile`` is one of AWS.
    seconds
        Without a byte, before a request fails.

    Raises
    ------
    UnsupportedError
        Where obstore does not know an option.
    """

    def __init__(self, server: str, secrets: AddressSecrets, seconds: float) -> None:
        self.secrets = secrets
        self._server = server
        self._is_s3 = server.startswith("s3:")
        given = dict(secrets.options)
        given |= given.pop("client_kwargs", None) or {}
        self._profile = str(given.pop("profile", ""))
        given = {NAMES.get(name, name): given[name] for name in given}
        self._keys = {name: given.pop(name) for name in KEYS if name in given}
        stated = read_settings(self._profile) if self._is_s3 else {}
        stated = {name: stated[name] for name in stated if name not in KEYS}
        self._options = stated | given
        self._mark = server, str(secrets.options)
        self._client = {
            "allow_http": True,
            "timeout": "1d",  # `RemoteStore` waits as long as the user allows
            "connect_timeout": f"{round(seconds * 1000)}ms",
            "read_timeout": f"{round(seconds * 1000)}ms",
        }
        is_named = secrets.has_credentials
        self._guest = None if is_named else self._open_guest()
        self._own: Any = None
        self._service: Any = None

    @property
    def is_public(self) -> bool:
        """Return whether anyone may read what it reads, as far as is known."""
        return self._guest is not None and self._mark not in _locked

    @property
    def place(self) -> str:
        """Where the bucket is: one of the same name elsewhere is another."""
        return str(self._options.get(ENDPOINT, self._server.partition("://")[0]))

    def _open(self, more: dict[str, Any], **forced: Any) -> Any:
        scheme, _, name = self._server.partition("://")
        options = {"bucket": name, **self._options, **more, **forced}
        if region := _regions.get((self._server, self.place)):
            options["region"] = region
        try:
            # No retries: `RemoteStore` asks again, and can be stopped.
            return KINDS[scheme](
                options.pop("bucket"),
                client_options=self._client,
                retry_config={"max_retries": 0},
                **options,
            )
        except BaseError as error:
            reason = str(error).partition("\n")[0].rstrip(".")
            msg = f"{self._server} is not read: {reason}."
            raise UnsupportedError(msg, remedy="Check the options.") from None

    def _open_guest(self) -> Any:
        nobody = NOBODY if self._is_s3 else {}
        return self._open({"skip_signature": True, **nobody})

    def _open_own(self) -> Any:
        """Return the store with the credentials of the user.

        Raises
        ------
        NoCredentialsError
            Where there are none.
        """
        if self._own is None:
            self._own = self._open(self._find_credentials())
        return self._own

    def _find_credentials(self) -> dict[str, Any]:
        """Find credentials of AWS; {} where obstore finds them by itself."""
        if not self._is_s3:
            return {}
        if self._options.get("skip_signature"):
            return NOBODY
        keys = self._keys
        if not keys and not self._profile:
            stated = zip(KEYS, map(os.environ.get, KEY_VARIABLES), strict=True)
            keys = {name: value for name, value in stated if value}
            if not keys and any(map(os.environ.get, SYSTEM)):
                return {}
        # Now: they may have been written since the bucket was opened.
        keys = keys or read_settings(self._profile)
        key, secret, token = map(keys.get, KEYS)
        if token or not (key or secret):
            require_endpoint(self._server, self._options.get(ENDPOINT))
        if not (key or secret):
            return {"credential_provider": find_provider(self._profile)}
        if not (key and secret):
            raise NoCredentialsError("the keys are incomplete")
        # Not as options, which obstore completes from the environment.
        found = {"access_key_id": key, "secret_access_key": secret, "token": token}
        return {"credential_provider": lambda: {**found, "expires_at": None}}

    def _open_service(self) -> Any:
        """Return a store of all buckets, whose keys begin with the name of one."""
        if self._service is None:
            region = self._open_own().config.get("region", "us-east-1")
            endpoint = self._options.get(ENDPOINT) or AWS.format(region)
            # As if a bucket without a name had a server of its own.
            one = {"bucket": "", "virtual_hosted_style_request": True}
            self._service = self._open(
                self._find_credentials(), **one, **{ENDPOINT: endpoint}
            )
        return self._service

    async def _ask(self, call: Ask[Content]) -> Content:
        """Read as anyone may, else with credentials."""
        if self.is_public:
            with suppress(PermissionError):
                return await self._call(lambda: self._guest, call)
        try:
            content = await self.ask_own(call)
        except FileNotFoundError:
            # Many buckets answer so only to those who may list them.
            _locked.add(self._mark)
            raise
        _locked.add(self._mark)
        return content

    async def ask_own(self, call: Ask[Content]) -> Content:
        """Call with the store that has the credentials of the user.

        Raises
        ------
        FileNotFoundError, PermissionError, ChangedObjectError, HttpAnswerError
            Where the server answers so.
        ConnectionError, TimeoutError
            Where it does not answer.
        """
        if self._own is None:
            # In a thread: it may wait for a computer of AWS.
            await asyncio.to_thread(self._open_own)
        return await self._call(self._open_own, call)

    async def _call(self, store: Callable[[], Any], call: Ask[Content]) -> Content:
        used = store()
        try:
            return await call(used)
        except NotModifiedError:
            raise
        except (BaseError, FileNotFoundError, ValueError) as error:
            text = str(error)
            failure = translate_error(error)
        if any(part in text for part in ELSEWHERE):
            await self._find_region()
            # Others may have found it since this request began.
            if store() is not used:
                return await self._call(store, call)
        # Not as the cause: its text quotes addresses.
        raise failure

    async def _find_region(self) -> None:
        """Ask in which region the bucket is, once, and open it there."""
        bucket = self._server, self.place
        if bucket in _regions:
            return
        endpoint = self._options.get(ENDPOINT) or AWS.format("us-east-1")
        region = await asyncio.to_thread(find_region, self._server, endpoint)
        if region:
            _regions[bucket] = region
            self._own = self._service = None
            if self._guest is not None:
                self._guest = self._open_guest()

    def key_of(self, address: str) -> str:
        """Return the key in the bucket of what an address names."""
        return address.removeprefix(self._server).strip("/")

    async def read(self, request: ObjectRequest) -> Blob | None:
        """Read an object or a part of it, by one request; see `ServerAccess.read`."""
        if request.start is not None and request.start == request.end:
            return Blob(b"")
        try:
            data, meta = await self._fetch(request)
        except NotModifiedError:
            return None
        except HttpAnswerError as error:
            if request.start is not None and error.status == NOT_IN_OBJECT:
                return Blob(b"")
            raise
        return Blob(data, Revision.of_tag(meta["e_tag"] or "", meta["size"]))

    async def read_part(self, request: ObjectRequest) -> FilePart:
        """Read a part and its version; see `FilePart`."""
        try:
            data, meta = await self._fetch(request)
        except ChangedObjectError:
            return FilePart(b"", FileVersion(), is_part=False)
        except HttpAnswerError as error:
            if error.status != NOT_IN_OBJECT:
                raise
            return FilePart(b"", FileVersion(), is_part=False)
        return FilePart(data, FileVersion(meta["e_tag"] or "", size=meta["size"]))

    async def _fetch(self, request: ObjectRequest) -> tuple[bytes, Any]:
        """Read the bytes that a request asks for, and what is stated of the object."""
        key, start, end = self.key_of(request.url), request.start, request.end
        conditions = {"if_match": request.condition, "if_none_match": request.known_tag}
        options: Any = {name: tag for name, tag in conditions.items() if tag}
        if start is not None and start < 0:
            options["range"] = {"suffix": -start}
        elif start is not None:
            options["range"] = {"offset": start} if end is None else (start, end)

        async def fetch(store: Any) -> tuple[bytes, Any]:
            if start is not None and start < 0 and self._server.startswith("az:"):
                # Azure knows no parts that are counted from the end.
                one = await obstore.get_async(store, key, options={"range": (0, 1)})
                options["range"] = {"offset": max(0, one.meta["size"] + start)}
            answer = await obstore.get_async(store, key, options=options)
            first, stop = answer.range
            if stop - first > request.most > 0:
                raise too_long_error(request.url, request.most)
            return bytes(await answer.bytes_async()), answer.meta

        return await self._ask(fetch)

    async def ask_revision(self, request: ObjectRequest) -> Revision:
        """Ask for the revision of an object."""
        path = self.key_of(request.url)
        meta = await self._ask(partial(obstore.head_async, path=path))
        return Revision(meta["size"], 0, tag=meta["e_tag"] or "")

    async def list_names(self, folder: str) -> list[str]:
        """List what is directly in a folder, by names."""
        key = self.key_of(folder)
        found = await self._ask(partial(obstore.list_with_delimiter_async, prefix=key))
        paths = [*found["common_prefixes"], *(one["path"] for one in found["objects"])]
        return [path.rpartition("/")[2] for path in paths if path != key]

    async def try_to_put(self, address: str) -> None:
        """Begin to put an object, and cancel it; fails as `ask_own`."""
        if not self._server.startswith("s3:"):
            await super().try_to_put(address)

        def cancel() -> bytes:
            raise InterruptedError

        # An upload in parts needs the same permission, and leaves no object behind.
        begin = partial(
            obstore.put_async,
            path=self.key_of(address),
            file=iter(cancel, b""),
            use_multipart=True,
        )
        with suppress(InterruptedError):
            await self.ask_own(begin)

    async def list_keys(self, folder: str) -> list[str]:
        """List the keys in the bucket of all objects below a folder, at any depth."""

        async def list_by(store: Any) -> list[str]:
            found = obstore.list(store, self.key_of(folder), chunk_size=1000)
            return [one["path"] async for some in found for one in some]

        return await self._ask(list_by)

    # Only for those who may change the bucket.

    async def put(self, address: str, data: bytes, before: str | None = "") -> str:
        """Put an object, and return its ETag.

        Parameters
        ----------
        before
            ETag of the object that is replaced; None where there must be none, "" for
            any or none.

        Raises
        ------
        ChangedObjectError
            Where the object is another one.
        """
        mode: Any = "overwrite" if before == "" else {"e_tag": before}
        mode = "create" if before is None else mode

        # As a whole, however large: a condition is for one request.
        put = partial(
            obstore.put_async,
            path=self.key_of(address),
            file=data,
            mode=mode,
            use_multipart=False,
        )
        return str((await self.ask_own(put))["e_tag"] or "")

    async def delete(self, address: str) -> None:
        """Remove an object."""
        await self.ask_own(partial(obstore.delete_async, paths=self.key_of(address)))

    async def copy(self, address: str, new: str) -> None:
        """Let the server copy an object, also from another of its buckets."""
        keys = [one.partition("://")[2] for one in (address, new)]
        await self._call(
            self._open_service, lambda store: obstore.copy_async(store, *keys)
        )


def open_bucket(server: str, secrets: AddressSecrets, seconds: float) -> ObjectStore:
    """Return the same for the same bucket, since connections are used again."""
    named = [f"{n}={v}" for n, v in os.environ.items() if n.startswith(SETTINGS)]
    own = secrets.login, secrets.query, secrets.token, str(secrets.options)
    key = server, seconds, own, str(named), os.getpid()
    if key not in _opened:
        _opened[key] = ObjectStore(server, secrets, seconds)
    return _opened[key]


def read_settings(profile: str) -> dict[str, Any]:
    """Read what files and variables of AWS state, but for keys in variables.

    Parameters
    ----------
    profile
        Of which keys are; "" for the usual one.

    Returns
    -------
    dict
        Options of obstore.
    """
    name = profile or os.environ.get("AWS_PROFILE", "default")
    found: dict[str, Any] = {}
    for variable, file in FILES:
        parser = RawConfigParser()
        with suppress(OSError, ParsingError, UnicodeDecodeError):
            parser.read(os.environ.get(variable) or Path.home() / ".aws" / file)
        for section in (f"profile {name}", name):
            if parser.has_section(section):
                found |= parser.items(section)
    options = {own: found[other] for other, own in IN_PROFILE.items() if other in found}
    for option, variables in VARIABLES.items():
        if value := next(filter(None, map(os.environ.get, variables)), ""):
            options[option] = value
    return options


def find_provider(profile: str) -> Any:
    """Return what gives credentials that have to be asked for, by boto3.

    Those of a role, of a single sign-on, or of a computer of AWS.

    Raises
    ------
    NoCredentialsError
        Where there are none.
    """
    what = f"the profile {profile} has no keys" if profile else "there are no keys"
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider

        return Boto3CredentialProvider(boto3.Session(profile_name=profile or None))
    except ImportError:
        failure = f"{what}; other logins of AWS need: pip install 'napari-ngff[aws]'"
    # Each way of AWS to log in has its own kinds.
    except Exception:  # noqa: BLE001
        failure = what
    raise NoCredentialsError(failure)


def find_region(server: str, endpoint: str) -> str:
    """Ask in which region a bucket is; "" where there is no answer."""
    return str(ask_bucket(server, endpoint).get("x-amz-bucket-region") or "")


def require_endpoint(server: str, endpoint: str | None) -> None:
    """Refuse an endpoint that redirects: obstore sends a session token along.

    Raises
    ------
    NoCredentialsError
    """
    # A region of AWS redirects to another one, which may have the token.
    target = ask_bucket(server, endpoint).get("Location") if endpoint else None
    if target is not None:
        msg = f"they are not sent to {endpoint}, which redirects to {target}"
        raise NoCredentialsError(msg)


def ask_bucket(server: str, endpoint: str) -> Any:
    """Ask for a bucket as anyone may; return the headers of the answer, a mapping."""
    from urllib.error import HTTPError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class Stay(HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            """Follow no redirection: it is an answer, too."""

    asked = Request(f"{endpoint}/{server.rpartition('/')[2]}", method="HEAD")
    try:
        with build_opener(Stay).open(asked, timeout=10) as answer:
            return answer.headers
    except HTTPError as error:  # to anyone: the region is stated all the same
        return error.headers
    except OSError:
        return {}


def translate_error(error: Exception) -> Exception:
    """Return an error of Python for one of obstore, whose text has addresses."""
    text = str(error)
    code, answered, kind = (found.search(text) for found in (CODE, STATUS, KIND))
    status = int(answered[1]) if answered else 0
    if status in FORBIDDEN or (code is not None and code[1] in REFUSALS):
        return PermissionError(code[1] if code else "access denied")
    # The library asks for no key with "..", or with empty parts.
    is_no_key = isinstance(error, ValueError) and "parse path" in text
    if isinstance(error, FileNotFoundError) or status == NOT_FOUND or is_no_key:
        return FileNotFoundError("there is no such object")
    is_changed = isinstance(error, PreconditionError | AlreadyExistsError)
    if is_changed or status == CONFLICT:
        return ChangedObjectError("the object is another one now")
    if answered:
        return HttpAnswerError(status, code[1] if code else answered[2])
    if kind is None:
        return OSError(text.partition("\n")[0])
    if kind[1] == "Timeout":
        return TimeoutError("no answer")
    if kind[1] == "Connect":
        return ConnectionRefusedError("no connection")
    return ConnectionAbortedError("the server cannot be reached: it hung up")
