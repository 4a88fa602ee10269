"""Dates as tables have them: by ISO 8601, as DICOM, in words, or as two numbers and a year.

13/02/2019 says itself which number is the day; 03/02/2019 does not, and only its column can.
"""

from typing import Literal, NamedTuple

import pandas as pd

from cxr_files.errors import InputError

Order = Literal["day", "month"]
DAY_AND_TIME = (
    r"(?i)^(?P<day>.*?)(?:[T ,]+(?P<clock>\d{1,2}:\d{2}(?::\d{2})?)(?:\.\d+)?"
    r" ?(?P<half>[ap])?(?:\.?m\.?)?(?:Z|[+-]\d\d:?\d\d)?)?$"
)
ISO = r"^(\d{4})([-/.])(\d{1,2})\2(\d{1,2})$"
NUMBERS = r"^(\d{1,2})([-/. ])(\d{1,2})\2(\d{4})$"
PACKED = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}  # by their length
WORDS = ("%d %b %Y", "%d %B %Y", "%b %d %Y", "%B %d %Y")
NEAR = pd.Timedelta(days=3)  # from an examination to its report, or to another image of it


class Numbers(NamedTuple):
    """How many dates of two numbers can only begin with the day, only with the month, or either."""

    day: int
    month: int
    either: int

    @property
    def mixed(self) -> bool:
        """True of 13/02/2019 beside 02/13/2019."""
        return self.day > 0 and self.month > 0


def numbers_of(texts: pd.Series) -> Numbers:
    """Count the dates that are two numbers and a year."""
    numbers = _parts(texts)["day"].str.extract(NUMBERS)
    first, second = numbers[0].astype("float64"), numbers[2].astype("float64")
    fits = first.between(1, 31) & second.between(1, 31)
    day, month = fits & (first > 12) & (second <= 12), fits & (second > 12) & (first <= 12)
    either = fits & (first <= 12) & (second <= 12) & (first != second)
    return Numbers(int(day.sum()), int(month.sum()), int(either.sum()))


def are_dates(texts: pd.Series) -> float:
    """Return the share of the texts that are dates in one order or the other."""
    filled = texts.dropna()
    if filled.empty:
        return 0.0
    dates = read_dates(filled, "day").fillna(read_dates(filled, "month"))
    years = dates.dt.year.between(1900, 2200)
    return float(years.mean())


def order_of(texts: pd.Series, headers: pd.Series, source: str) -> Order:
    """Return whether dates begin with the day or the month.

    Args:
        texts: of the column.
        headers: the dates of the examinations themselves, as far as they are known.
        source: file and column, for errors.

    Raises:
        InputError: nothing tells, or the column has both.
    """
    counts = numbers_of(texts)
    typed = "expected --day-first or --month-first"
    if counts.mixed:
        raise InputError(
            f"{source}: {counts.day} dates are written as 13/02/2019 and {counts.month} as "
            f"02/13/2019; {typed}, and the others count as no dates"
        )
    if counts.day or counts.month or not counts.either:
        return "month" if counts.month else "day"
    near = {
        order: int(((read_dates(texts, order) - headers.dt.normalize()).abs() <= NEAR).sum())
        for order in ("day", "month")
    }
    if near["day"] != near["month"] and min(near.values()) <= max(near.values()) // 10:
        return "day" if near["day"] > near["month"] else "month"
    raise InputError(
        f"{source}: of {counts.either} dates such as 03/02/2019 nothing says whether the day or "
        f"the month is first; {typed}"
    )


def read_dates(texts: pd.Series, order: Order) -> pd.Series:
    """Return texts as times, NaT of what is no date, in the given order of day and month."""
    parts = _parts(texts)
    iso, numbers = parts["day"].str.extract(ISO), parts["day"].str.extract(NUMBERS)
    day, month = (numbers[0], numbers[2]) if order == "day" else (numbers[2], numbers[0])
    dates = _dates(iso[0], iso[2], iso[3]).fillna(_dates(numbers[3], month, day))
    for length, form in PACKED.items():
        packed = parts["day"].where(parts["day"].str.fullmatch(rf"\d{{{length}}}").astype("bool"))
        dates = dates.fillna(_read(packed, form))
    words = parts["day"].str.replace(r"[-,. ]+", " ", regex=True)
    for form in WORDS:
        dates = dates.fillna(_read(words, form))
    return dates + _time_of_day(parts)


def _parts(texts: pd.Series) -> pd.DataFrame:
    """The day of each text, its clock and which half of the day that counts."""
    return texts.fillna("").astype("str").str.strip().str.extract(DAY_AND_TIME)


def _time_of_day(parts: pd.DataFrame) -> pd.Series:
    clock = parts["clock"].str.split(":", expand=True).reindex(columns=[0, 1, 2]).astype("float64")
    half = parts["half"].str.lower()
    hours = (clock[0] % 12 + 12 * half.eq("p")).where(half.notna(), clock[0])
    minutes = 60 * hours + clock[1]
    return pd.to_timedelta((60 * minutes + clock[2].fillna(0)).fillna(0), unit="s")


def _dates(years: pd.Series, months: pd.Series, days: pd.Series) -> pd.Series:
    parts = pd.DataFrame({"year": years, "month": months, "day": days}).astype("float64")
    return pd.to_datetime(parts, errors="coerce").astype("datetime64[us]")


def _read(texts: pd.Series, form: str) -> pd.Series:
    return pd.to_datetime(texts, format=form, errors="coerce").astype("datetime64[us]")
