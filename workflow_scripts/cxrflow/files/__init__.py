"""Reading, writing and replacing files.

Inputs: ``reading`` opens files, ``archives``, ``csv_table``, ``parquet`` and ``yaml_file`` read
them within bounds and report damage; ``weights`` says what lies in place of weights, and ``drops``
counts what is left out. Outputs: ``outputs`` checks where a program may write, ``atomic`` writes
files that are complete or absent. ``source_code`` finds the code of a program.
"""
