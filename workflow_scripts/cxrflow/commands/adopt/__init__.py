"""From a hospital's archive to the folder that the trainings read: ``cxrflow adopt``."""
