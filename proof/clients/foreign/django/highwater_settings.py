"""Django's settings for its own tests, on the PostgreSQL server in DATABASE_URL."""

import os
from urllib.parse import urlsplit

_url = urlsplit(os.environ["DATABASE_URL"])
_server = {
    "ENGINE": "django.db.backends.postgresql",
    "USER": _url.username,
    "HOST": _url.hostname,
    "PORT": _url.port,
    # The role's search_path names a schema that the test databases lack.
    "OPTIONS": {"options": "-c search_path=public"},
}

DATABASES = {
    "default": {**_server, "NAME": "django"},
    "other": {**_server, "NAME": "django_other"},
}
TEST_RUNNER = "recording.Runner"
SECRET_KEY = "of tests"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
