"""The fault laboratory: each stage of the workflow under faults of the machine, `make faults`.

``calls``: system calls that change files, refused, cut short or cut off by the supervisor of a
program. ``stages``: the jobs of a finished run. ``faults``: what a machine does to a job.
``trial``: a job under a fault, and what became of it. ``table``: stage by fault.
"""
