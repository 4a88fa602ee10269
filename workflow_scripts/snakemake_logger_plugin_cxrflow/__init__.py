"""Snakemake's ``--logger cxrflow``: prints a run as :mod:`cxrflow.console` does.

Snakemake finds a logger by the name of its package, which therefore stands beside cxrflow.
"""

import sys
from logging import LogRecord

from snakemake_interface_logger_plugins.base import LogHandlerBase


class LogHandler(LogHandlerBase):
    """Hands Snakemake's records to the console; a failure of its own ends no run."""

    writes_to_stream = True
    writes_to_file = False
    has_filter = False  # Snakemake's own, which knows --quiet
    has_formatter = True
    needs_rulegraph = False

    def __post_init__(self) -> None:
        # Not at the top: Snakemake imports every logger there is before it reads a Snakefile, whose
        # checkout brings a package of its own.
        from cxrflow.console.console import Console

        stream = sys.stdout if self.common_settings.stdout else sys.stderr
        self.console = Console(stream, self.common_settings.dryrun)

    def emit(self, record: LogRecord) -> None:
        try:
            self.console.handle(record)
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        self.console.close()
        super().close()
