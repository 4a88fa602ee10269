"""The report page while a run goes on: ``report/so_far.html``, written anew after each table.

Before the first table it is written after each score of a model, so that rows are seen minutes
before their table is whole. It is made beside the run's jobs by the program that makes the page at
the end, at most one at a time, and renews itself in a browser. When the page is there it leads to
it. What goes wrong with it stands in its log and stops nothing.
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from cxrflow.config.cost import Job

PAGE, TABLE, SCORE = "make_page", "make_table", "evaluate"
NAME = "so_far.html"
LEADS_ON = '<!DOCTYPE html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={}">'


@dataclass
class GrowingPage:
    """The page of a run so far."""

    page: Path  # that the run makes at its end
    config: Path
    results: Path
    process: subprocess.Popen[bytes] | None = None
    due: bool = False  # there is a table, or a row, that it does not show
    tabled: bool = False  # there is a table
    shown: bool = False  # where it lies has been said

    @classmethod
    def of(cls, jobs: list[Job]) -> "GrowingPage | None":
        """The page of these jobs; None where they make none, or no table."""
        pages = [path for job in jobs if job.rule == PAGE for path in job.outputs]
        tables = sorted(path for job in jobs if job.rule == TABLE for path in job.outputs)
        page = next((Path(path) for path in pages if Path(path).name == "index.html"), None)
        if page is None or not tables:
            return None
        results = Path(tables[0].partition("/tables/")[0])
        return cls(page, page.with_name("config.json"), results)

    @property
    def path(self) -> Path:
        """Where it is written."""
        return self.page.with_name(NAME)

    def ended(self, rule: str, so_far: str) -> str:
        """Take note that a job of this rule is done; what is to be printed of it.

        ``so_far``: how much of the run there is, in words for the page.
        """
        if rule == PAGE and self.page.is_file():
            self.close()
            if self.path.is_file():
                self.path.write_text(LEADS_ON.format(self.page.name), encoding="utf-8")
            for beside in self.path.with_name(f"{self.path.stem}_files").glob("*.html"):
                beside.write_text(LEADS_ON.format(f"../{self.page.name}"), encoding="utf-8")
            return ""
        self.tabled |= rule == TABLE
        self.due |= rule == TABLE or (rule == SCORE and not self.tabled)
        if self.process is not None and self.process.poll() is None:
            return ""
        if self.due and self.config.is_file():
            self.due = False
            self.process = self._start(so_far)
        elif not self.shown and self.path.is_file():
            self.shown = True
            return f"the page so far: {self.path}"
        return ""

    def _start(self, so_far: str) -> subprocess.Popen[bytes]:
        log = self.results / "logs" / PAGE / "so_far.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        command = ["nice", sys.executable, "-m", "cxrflow.show.page.make_page", "--so-far", so_far]
        command += ["--config", str(self.config), "--results", str(self.results)]
        with log.open("wb") as output:
            return subprocess.Popen(
                [*command, "--output", str(self.path)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def close(self) -> None:
        """Stop making it."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
