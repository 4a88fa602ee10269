"""What holds for all tests."""

import signal


def pytest_configure() -> None:
    """Let Ctrl-C reach what the tests start.

    A shell makes its background jobs ignore SIGINT, and so do all programs started from them.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
