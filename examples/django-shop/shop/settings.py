"""Settings of the project. The database is the one that has the hub: ``MGW_HUB``, as for the command ``mgw``."""

import os

from sqlalchemy.engine import make_url

HUB = os.environ.get("MGW_HUB", "sqlite:///shop.db")

_url = make_url(HUB)
if _url.get_backend_name() == "sqlite":
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": _url.database,
            # A hub needs WAL; a transaction that will write waits for its turn when it begins.
            "OPTIONS": {"timeout": 30, "init_command": "PRAGMA journal_mode=WAL", "transaction_mode": "IMMEDIATE"},
        }
    }
else:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": _url.database,
            "USER": _url.username,
            "PASSWORD": _url.password,
            "HOST": _url.host,
            "PORT": _url.port,
        }
    }

INSTALLED_APPS = ["shop"]
SECRET_KEY = os.environ.get("SHOP_SECRET_KEY", "of no use: this project has no web page")
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
