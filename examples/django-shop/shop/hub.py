"""The hub in the project's database."""

from functools import cache

from django.conf import settings
from django.db import connection

from mgw import Hub


@cache
def hub():
    """The hub, opened once in a process; it closes with the process."""
    return Hub.open(settings.HUB)


def session():
    """A session in the present transaction of the project; use it inside ``transaction.atomic()``."""
    connection.ensure_connection()
    return hub().session(connection.connection)
