"""Reading, writing and replacing files.

Inputs: ``archives``, ``csv_table``, ``parquet`` and ``yaml_file`` read within bounds and report
damage; ``drops`` counts what is left out. Outputs: ``outputs`` checks where a program may write,
``atomic`` writes files that are complete or absent. ``source_code`` finds the code of a program.
"""
