"""What the tests of the hospital start from."""

from phantom_fixtures import written

__all__ = ["written"]
