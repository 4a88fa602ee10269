"""The configuration of a run: ``config.yaml`` and the overlays given after ``--configfile``.

:class:`Config` is the validated whole, made of every stage's own settings class;
:func:`load_config` reads files, :func:`make_config` takes what Snakemake has already merged. An
error is one line that names the key and the file. Importing this package costs no torch and no
pandas: Snakemake does it in every job.
"""

from cxrflow.config.configuration import Config
from cxrflow.config.loading import load_config, make_config

__all__ = ["Config", "load_config", "make_config"]
