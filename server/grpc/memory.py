"""MemoryService: declared in the contract, not built yet; every call says so."""

from __future__ import annotations

from typing import Any, NoReturn

from plait.domain.errors import NotBuilt
from plait.v1 import memory_service_pb2_grpc


def _refuse(call: str) -> NoReturn:
    raise NotBuilt(
        f"MemoryService.{call} is not built yet; AppendEpisode stores notes as artifacts of kind note",
        call=f"MemoryService.{call}",
    )


class MemoryService(memory_service_pb2_grpc.MemoryServiceServicer):
    async def StoreMemory(self, request: Any, context: Any) -> NoReturn:
        _refuse("StoreMemory")

    async def BatchStoreMemories(self, request: Any, context: Any) -> NoReturn:
        _refuse("BatchStoreMemories")

    async def GetMemory(self, request: Any, context: Any) -> NoReturn:
        _refuse("GetMemory")

    async def ListMemories(self, request: Any, context: Any) -> NoReturn:
        _refuse("ListMemories")

    async def DeleteMemory(self, request: Any, context: Any) -> NoReturn:
        _refuse("DeleteMemory")

    async def Learn(self, request: Any, context: Any) -> NoReturn:
        _refuse("Learn")
