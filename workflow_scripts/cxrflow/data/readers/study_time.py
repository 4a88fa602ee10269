"""Dates and times of studies as the layouts write them.

MIMIC shifts each patient's dates into 2100–2200 by one random amount: order and gaps are true
within a patient and mean nothing across patients.
"""

import pandas as pd


def from_dicom(date: pd.Series, time: pd.Series) -> pd.Series:
    """Return DICOM ``StudyDate`` (DA) and ``StudyTime`` (TM) as datetimes.

    TM may be cut to HH or HHMM.

    A missing or impossible date gives NaT; a missing time counts as midnight.
    """
    digits = time.fillna("").str.replace(":", "", regex=False).str.strip()
    seconds, fraction = _halves(digits)
    return _joined(date, seconds.str.ljust(6, "0"), fraction)


def from_numbers(date: pd.Series, time: pd.Series) -> pd.Series:
    """Return MIMIC-CXR-JPG's columns as datetimes.

    ``StudyTime`` is HHMMSS.fff as a number, without leading zeros.
    """
    seconds, fraction = _halves(time.fillna("").str.strip())
    return _joined(date, seconds.str.rjust(6, "0"), fraction)


def iso(times: pd.Series) -> pd.Series:
    """Return times in ISO 8601 to the millisecond, null if unknown."""
    return times.dt.strftime("%Y-%m-%dT%H:%M:%S.%f").str.slice(0, 23).astype("str")


def order(times: pd.Series) -> pd.Series:
    """Return microseconds since 1970 as float64, NaN if unknown; a key to sort by."""
    numbers = times.astype("datetime64[us]").astype("int64").astype("float64")
    return numbers.where(times.notna())


def _halves(text: pd.Series) -> tuple[pd.Series, pd.Series]:
    halves = text.str.partition(".").reindex(columns=[0, 2])  # no columns where there is no row
    return halves[0].astype("str"), halves[2].astype("str").str.slice(0, 6).str.ljust(6, "0")


def _joined(date: pd.Series, seconds: pd.Series, fraction: pd.Series) -> pd.Series:
    day = date.fillna("").str.strip().str.replace(r"\.0$", "", regex=True)
    text = day + seconds + "." + fraction
    # Eight digits of date and six of time, or nothing: strptime alone would accept fewer.
    text = text.where(text.str.fullmatch(r"\d{8}\d{6}\.\d{6}"))
    return pd.to_datetime(text, format="%Y%m%d%H%M%S.%f", errors="coerce")
