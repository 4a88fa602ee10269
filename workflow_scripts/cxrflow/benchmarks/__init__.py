"""Benchmarks: what a model scores in a task, its protocol kept with the result (docs/protocols.md).

The program of a benchmark predicts; :mod:`.runner` reads for it, computes every metric with its
bootstrap interval and writes. A program's module has

- ``COLUMNS``: what it needs of the cohort's table;
- ``predict(inputs, settings) -> Predictions``: a table with a row a sample, its statistic, what is
  said of data and protocol beside the settings. ``inputs`` (:class:`.inputs.Inputs`, or of a model
  :class:`.model_inputs.ModelInputs`) reads cohort, model, pixels or features when asked for them;
- ``statistic(table, settings) -> CountedStatistic``: the metrics of such a table under resampling
  counts, and the number of samples behind each. Paired tests call it on predictions.parquet.

A baseline and a file from elsewhere are rows, models that happen not to be trained: the program
asks them for features, scores, maps or reports (``inputs.ask``, :mod:`.rows.row`). The entry in
:mod:`.registry` names all of them, and how samples are keyed and clustered.
"""
