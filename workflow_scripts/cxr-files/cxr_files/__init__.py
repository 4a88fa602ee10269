"""Files, settings and errors: the common ground of cxrflow, its hospital and its labeller.

Inputs: ``reading`` opens files, ``archives``, ``csv_table``, ``parquet`` and ``yaml_file`` read
them within bounds and report damage; ``weights`` says what lies in place of weights, and ``drops``
counts what is left out. Outputs: ``outputs`` checks where a program may write, ``atomic`` writes
files that are complete or absent. ``settings`` is the base of settings, ``program`` the frame of a
program, ``parallel`` shares work out to processes.
"""

__version__ = "0.1.0"
