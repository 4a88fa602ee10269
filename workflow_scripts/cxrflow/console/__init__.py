"""What a run of the workflow prints: the job that runs, how many are done, the time left."""
