"""Linear heads on frozen features: how they are learnt, whatever benchmark asks for them.

``shares``: the rows of a share of the labels, and the names of their scores.
``logistic_regression``: the optimum of a penalised loss, for shares, seeds and starts.
``cross_validation``: the optimum of all classes and folds side by side, both labels counting the
same.
``early_stopping``: steps of Adam, ended by validation scores.

The two optima have a search each. One head at a time would take several times as long for the
folds; side by side, a probe would end elsewhere within its tolerance, at other digits.
"""
