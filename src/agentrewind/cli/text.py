"""Text for the terminal: as for the page."""

from agentrewind.ui.text import (
    as_json,
    duration,
    listed,
    local_time,
    one_line,
    path_name,
    plural,
    printable,
    printable_block,
    short_id,
)

__all__ = [
    "as_json",
    "duration",
    "listed",
    "local_time",
    "one_line",
    "path_name",
    "plural",
    "printable",
    "printable_block",
    "short_id",
]
