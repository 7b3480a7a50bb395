"""The ports: Protocols of the stores and models that the core and the ETL use, one or two a module.

Adapters satisfy them structurally (`vector/`, `graph/`, `plait/models/embedding/`); nothing inherits from them.
Every method may raise `StoreUnavailable`; further errors are named where they arise.
"""

from plait.domain.answers.graph import GraphEdge as GraphEdge
from plait.domain.answers.graph import GraphNode as GraphNode
from plait.domain.answers.graph import GraphPath as GraphPath
from plait.domain.answers.graph import GraphResult as GraphResult
from plait.ports.access import KeyStore as KeyStore
from plait.ports.embedding import EmbeddingProvider as EmbeddingProvider
from plait.ports.embedding import Vectors as Vectors
from plait.ports.episodes import EpisodeStore as EpisodeStore
from plait.ports.graph import GraphStore as GraphStore
from plait.ports.impact import Changed as Changed
from plait.ports.impact import ChangedCode as ChangedCode
from plait.ports.impact import ImpactStore as ImpactStore
from plait.ports.impact import Run as Run
from plait.ports.index import Draft as Draft
from plait.ports.index import FileGraph as FileGraph
from plait.ports.index import FileRow as FileRow
from plait.ports.index import IndexStats as IndexStats
from plait.ports.index import IndexStore as IndexStore
from plait.ports.index import KeptFile as KeptFile
from plait.ports.index import Segment as Segment
from plait.ports.index import Sibling as Sibling
from plait.ports.index import StoredFile as StoredFile
from plait.ports.language import LanguageModel as LanguageModel
from plait.ports.language import Reranker as Reranker
from plait.ports.memory import ForgetStore as ForgetStore
from plait.ports.memory import MemoryStore as MemoryStore
from plait.ports.memory import RetentionStore as RetentionStore
from plait.ports.outbox import DeadLetter as DeadLetter
from plait.ports.outbox import GraphContents as GraphContents
from plait.ports.outbox import GraphDelta as GraphDelta
from plait.ports.outbox import Outbox as Outbox
from plait.ports.recall import RecallStore as RecallStore
from plait.ports.relations import CodeGraph as CodeGraph
from plait.ports.relations import MemoryLink as MemoryLink
from plait.ports.relations import MemoryLinkStore as MemoryLinkStore
from plait.ports.relations import MemoryNode as MemoryNode
from plait.ports.relations import RelationStore as RelationStore
from plait.ports.relations import Sites as Sites
from plait.ports.repositories import RepositoryStore as RepositoryStore
from plait.ports.savings import SavingsStore as SavingsStore
from plait.ports.search import Around as Around
from plait.ports.search import CodeVersions as CodeVersions
from plait.ports.search import ItemState as ItemState
from plait.ports.search import Place as Place
from plait.ports.search import SearchStore as SearchStore
from plait.ports.search import Spot as Spot
from plait.ports.search import View as View
from plait.ports.vectors import PendingText as PendingText
from plait.ports.vectors import VectorQueue as VectorQueue
