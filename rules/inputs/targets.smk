"""What targets ask for, and what is said of it first."""


def requested(extents):
    """The tables of papers in their extents; says first what is made of them, and what is not."""
    try:
        require_models(run, extents)
    except InputError as error:
        raise WorkflowError(str(error)) from None
    logger.info(announcement(run, extents))
    return [path for paper, extent in extents.items() for path in paper_tables(paper, extent)]
