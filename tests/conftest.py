"""What holds for all tests."""

import signal

import pytest


def pytest_configure() -> None:
    """Let Ctrl-C reach what the tests start.

    A shell makes its background jobs ignore SIGINT, and so do all programs started from them.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before the plugin that reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of several processes (`make test`) one runs the workflow's tests, which share a finished run.

    They take longest and come first; the other files go to whichever process is free.
    """
    items.sort(key=lambda item: "workflow" not in item.path.parts)
    for item in items:
        group = "workflow" if "workflow" in item.path.parts else item.path.name
        item.add_marker(pytest.mark.xdist_group(group))
