"""The client for hooks: three calls, one channel, and no import that they do not need.

A hook is a process that lives for a tenth of a second, most of which was importing the full client. These
calls are not retried: a late answer is of no use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import grpc

from plait.domain.remarks import FileEdit, Remark
from plait.v1 import hook_service_pb2 as pb
from plait.wire import hooks

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["FileEdit", "Folder", "HookClient", "Remarks"]

TIMEOUT_S = 1.0
_TENANT = "plait-tenant"  # of the metadata
_OPTIONS = (
    # A local address must not go through an HTTP proxy that the environment names.
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Folder:
    """The index of a folder; `text` describes it in a line. `repository` "": none."""

    repository: str
    root: str
    text: str
    indexing: bool


@dataclass(frozen=True, slots=True)
class Remarks:
    """`edited`: keys of what an edit itself is about."""

    repository: str
    remarks: tuple[Remark, ...]
    edited: tuple[str, ...] = ()


class HookClient:
    """Calls of HookService. Every method may raise `PlaitRpcError`."""

    def __init__(self, target: str, *, tenant: str = "", timeout_s: float = TIMEOUT_S) -> None:
        self._channel = grpc.insecure_channel(target, options=_OPTIONS)
        self._metadata = ((_TENANT, tenant),) if tenant else ()
        self._timeout_s = timeout_s

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    def describe_folder(
        self, folder: str, *, refresh: bool = False, budget_tokens: int = 0, tokenizer: str = ""
    ) -> Folder:
        """What is indexed of `folder`; `refresh` begins to bring it up to date."""
        request = pb.DescribeFolderRequest(
            folder=folder, refresh=refresh, budget_tokens=budget_tokens, tokenizer=tokenizer
        )
        return self._call(
            "DescribeFolder",
            request,
            pb.DescribeFolderResponse.FromString,
            lambda m: Folder(m.repository, m.root, m.text, m.indexing),
        )

    def advise_edit(
        self,
        edits: Sequence[FileEdit],
        known: Sequence[str] = (),
        *,
        budget_tokens: int = 0,
        tokenizer: str = "",
    ) -> Remarks:
        """What else must change with `edits`, and the tests to run; but for what is `known`."""
        request = pb.AdviseEditRequest(
            edits=hooks.edits(edits),
            known_keys=known,
            budget_tokens=budget_tokens,
            tokenizer=tokenizer,
        )
        return self._call(
            "AdviseEdit",
            request,
            pb.AdviseEditResponse.FromString,
            lambda m: Remarks(m.repository, hooks.remarks_of(m.remarks), tuple(m.edited_keys)),
        )

    def name_symbols(
        self,
        folder: str,
        names: Sequence[str],
        known: Sequence[str] = (),
        *,
        budget_tokens: int = 0,
        tokenizer: str = "",
    ) -> Remarks:
        """Where `names` are defined in the repository around `folder`; but for what is `known`."""
        request = pb.NameSymbolsRequest(
            folder=folder,
            names=names,
            known_keys=known,
            budget_tokens=budget_tokens,
            tokenizer=tokenizer,
        )
        return self._call(
            "NameSymbols",
            request,
            pb.NameSymbolsResponse.FromString,
            lambda m: Remarks(m.repository, hooks.remarks_of(m.remarks)),
        )

    def _call(
        self,
        method: str,
        request: Message,
        parse: Callable[[bytes], Any],
        read: Callable[[Any], T],
    ) -> T:
        call = self._channel.unary_unary(
            f"/plait.v1.HookService/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=parse,
        )
        try:
            return read(call(request, timeout=self._timeout_s, metadata=self._metadata))
        except grpc.RpcError as exc:
            from plait.client.errors import (
                from_rpc,
            )  # 30 ms, which a call that succeeds need not pay

            raise from_rpc(exc) from None
