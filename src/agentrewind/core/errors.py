"""Every error that agentrewind raises on purpose.

::

    AgentRewindError
    ├── UsageError                 the caller asked for something that can't be; nothing was touched (exit code 2)
    │   ├── WorkspaceRefused       a directory that we won't take as a workspace
    │   ├── UnknownRun             no run of that name
    │   ├── UnknownRecord          no record of that uid in the run
    │   ├── BadTask                a directory that is no benchmark task, or one that is written wrongly
    │   └── SnapshotNotFound       no snapshot of that id in the store
    ├── Busy                       somebody else holds the lease of the workspace or of the run; nothing was touched
    ├── StorageFull                no room; what was there before is still there
    ├── StoreError                 the snapshot store
    │   ├── SnapshotDamaged        an object is missing or wrong; nothing was touched
    │   ├── SnapshotIncomplete     a path could not be read when it was taken; needs an explicit word
    │   ├── RestoreRefused         the plan can't be carried out; nothing was touched
    │   └── RestoreInterrupted     the restore stopped half-way; the live state is saved, `resume()` finishes it
    ├── JournalError
    │   └── JournalDamaged         names the file and the byte offset
    ├── NotRun                     a tool call was held back because of its effects; the text says so to the agent
    ├── RewindRefused              the rewind was not made; context and files are where they were
    ├── ProviderError              the model's endpoint could not be used (dead, wrong key, bad answer)
    ├── AgentError                 the harness failed by itself
    └── TrainingStopped            a loss that isn't finite, or a gate not passed; the weights before it are kept
"""

from __future__ import annotations

import errno


class AgentRewindError(Exception):
    """What happened, to which path or record, what is still safe, what to do next: one readable text."""


class UsageError(AgentRewindError): ...


class WorkspaceRefused(UsageError): ...


class UnknownRun(UsageError): ...


class UnknownRecord(UsageError): ...


class BadTask(UsageError): ...


class SnapshotNotFound(UsageError): ...


class Busy(AgentRewindError): ...


class StorageFull(AgentRewindError): ...


NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""The numbers of the system's errors that are a `StorageFull`."""


class StoreError(AgentRewindError): ...


class SnapshotDamaged(StoreError): ...


class SnapshotIncomplete(StoreError): ...


class RestoreRefused(StoreError): ...


class RestoreInterrupted(StoreError): ...


class JournalError(AgentRewindError): ...


class JournalDamaged(JournalError): ...


class NotRun(AgentRewindError):
    """A tool call was held back because of its effects (`--effects`); the text says so to the agent."""


class RewindRefused(AgentRewindError): ...


class ProviderError(AgentRewindError): ...


class AgentError(AgentRewindError): ...


class TrainingStopped(AgentRewindError): ...
