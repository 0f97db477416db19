"""The one durable log of a run: `journal.jsonl`, `content.jsonl` and `lease` in a directory of its own."""

from agentrewind.journal.reader import RunLog, read_run
from agentrewind.journal.writer import JournalWriter

__all__ = ["JournalWriter", "RunLog", "read_run"]
