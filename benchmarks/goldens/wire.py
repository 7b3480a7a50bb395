"""Calls over gRPC by reflection: the contract is the server's own, no generated module is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import grpc
from google.protobuf import json_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from grpc_status import rpc_status

PACKAGE = "plait.v1"
MAX_BYTES = 64 * 2**20
TIMEOUT_S = 300.0
Message = dict[str, Any]  # as protobuf's JSON, with the contract's names


class Wire:
    """A channel to `target`. Methods are named `Service.Method`; requests are messages as JSON has them."""

    def __init__(self, target: str, metadata: Mapping[str, str] | None = None) -> None:
        self.target = target
        options = [("grpc.max_receive_message_length", MAX_BYTES), ("grpc.enable_http_proxy", 0)]
        self._channel = grpc.insecure_channel(target, options=options)
        self._pool = DescriptorPool(ProtoReflectionDescriptorDatabase(self._channel))
        self._metadata = tuple((metadata or {}).items())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._channel.close()

    def methods(self, services: Iterable[str]) -> list[str]:
        """`Service.Method` of each method of `services`."""
        return [
            f"{name}.{method.name}"
            for name in services
            for method in self._pool.FindServiceByName(f"{PACKAGE}.{name}").methods
        ]

    def services(self) -> list[str]:
        """The contract's services, without their package."""
        names = ProtoReflectionDescriptorDatabase(self._channel).get_services()
        return sorted(n.rpartition(".")[2] for n in names if n.startswith(f"{PACKAGE}."))

    def done(self, method: str, request: Message) -> Message:
        """The answer. Raises: grpc.RpcError."""
        answer: Message = self._call("unary_unary", method, request)
        return answer

    def call(self, method: str, request: Message) -> Message:
        """The answer; what was refused is `{"error": …}`."""
        try:
            return self.done(method, request)
        except grpc.RpcError as exc:
            return {"error": error(exc)}

    def stream(self, method: str, requests: Iterable[Message]) -> list[Message]:
        """The answers to a stream of requests, or to one; last an `{"error": …}` where it was broken off."""
        service, _, name = method.partition(".")
        found = self._pool.FindServiceByName(f"{PACKAGE}.{service}").methods_by_name[name]
        kind = "stream_stream" if found.client_streaming else "unary_stream"
        answers: list[Message] = []
        try:
            for answer in self._call(kind, method, requests):
                answers.append(answer)
        except grpc.RpcError as exc:
            answers.append({"error": error(exc)})
        return answers

    def _call(self, kind: str, method: str, given: Any) -> Any:
        service, _, name = method.partition(".")
        found = self._pool.FindServiceByName(f"{PACKAGE}.{service}").methods_by_name[name]
        request, response = GetMessageClass(found.input_type), GetMessageClass(found.output_type)
        stub = getattr(self._channel, kind)(
            f"/{PACKAGE}.{service}/{name}",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        if kind == "stream_stream":
            given = (json_format.ParseDict(message, request()) for message in given)
        elif kind == "unary_stream":
            (given,) = given
        if kind != "stream_stream":
            given = json_format.ParseDict(given, request())
        answer = stub(given, timeout=TIMEOUT_S, metadata=self._metadata)
        return _tree(answer) if kind == "unary_unary" else (_tree(message) for message in answer)


def _tree(message: Any) -> Message:
    tree: Message = json_format.MessageToDict(message, preserving_proto_field_name=True)
    return tree


def error(exc: grpc.RpcError) -> Message:
    """Its code, text, and details, as docs/errors.md promises them."""
    status = rpc_status.from_call(exc)  # type: ignore[arg-type]  # a failed call is both
    found: Message = {"code": exc.code().name, "message": exc.details()}
    for detail in status.details if status else ():
        for kind in (
            error_details_pb2.ErrorInfo,
            error_details_pb2.BadRequest,
            error_details_pb2.RetryInfo,
        ):
            if detail.Is(kind.DESCRIPTOR):
                message = kind()
                detail.Unpack(message)
                found[kind.DESCRIPTOR.name] = _tree(message)
    return found
