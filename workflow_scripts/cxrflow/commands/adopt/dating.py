"""When each study was: by its header, else by the table of reports."""

from collections.abc import Mapping

import pandas as pd

from cxr_files.errors import InputError
from cxrflow.commands.adopt.columns import Columns
from cxrflow.commands.adopt.dates import NEAR, Order, numbers_of, order_of, read_dates
from cxrflow.commands.adopt.matching import Matching
from cxrflow.commands.adopt.report_table import ReportTable


def date_studies(
    matching: Matching, table: ReportTable, columns: Columns, typed: Order | None
) -> Mapping[str, int]:
    """Fill in the dates that headers lack; return counts of where dates come from.

    Args:
        matching: its studies get their dates.
        table: the reports.
        columns: which of its columns is the date; what is odd about it is added to its reason.
        typed: the order of day and month that a person has named.

    Raises:
        InputError: dates of the table are needed, and nothing says which number is the day.
    """
    studies = matching.studies
    by_header = [study for study in studies if study.date is not None]
    counts = {"studies dated by their header": len(by_header)}
    without = [study for study in matching.matched if study.date is None]
    if columns.date is not None:
        texts = table.rows[columns.date]
        headers = pd.Series(
            {study.rows[-1]: study.date for study in by_header if study.rows},
            dtype="datetime64[us]",
        ).reindex(texts.index)
        order: Order | None = typed
        numbers = numbers_of(texts)
        if typed and numbers.mixed:
            columns.reasons["date"] += (
                f"; it has both 13/02/2019 and 02/13/2019: {numbers.either} such as 03/02/2019 "
                f"are read {typed} first"
            )
        try:
            order = typed or order_of(texts, headers, f"{table.source}: column '{columns.date}'")
        except InputError:
            if without:
                raise
            columns.reasons["date"] += (
                "; not read: nothing says which number is the day, and all headers have a date"
            )
        if order is not None:
            times = read_dates(texts, order)
            apart = (times - headers.dt.normalize()).abs() > NEAR
            counts[f"reports dated more than {NEAR.days} days from the header"] = int(apart.sum())
            named = 0
            for study in without:
                date = times[study.rows[-1]]
                study.date = None if pd.isna(date) else date
                named += study.date is not None
            counts["studies dated by the table"] = named
            unread = texts.fillna("").str.strip().ne("") & times.isna()
            counts["texts of the table that are no date"] = int(unread.sum())
    counts["studies without a date"] = sum(study.date is None for study in studies)
    return counts
