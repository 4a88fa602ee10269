"""Damaged files against the programs that read them: ``python -m fuzz --seed 5``, or `make fuzz`.

A kind of input is a module with

``COUNT``
    how many are tried by default,
``run(trial, work)``
    which draws ``trial.count`` damaged inputs, each by ``trial.random(number)``, into the folder
    ``work``, and gives them to the project's programs (``trial.program``) or functions
    (``trial.attempt``), which note what did not hold.

What must hold: what cannot be used is refused in one line or counted by name; nothing ends with a
traceback; no label depends on a report's case, line ends or characters; no death of a worker ends
its program; nothing takes ten seconds or a worker 2 GB.
"""

KINDS = (
    *("dicom", "pictures", "tables", "configurations"),
    *("reports", "report_tables", "weights", "folders"),
)
