"""Django on the PostgreSQL wire: one setting of the session, and nothing else that is new.

Settings come from the environment:

    DATABASE_URL   the gateway's address for PostgreSQL clients
    GATE           empty: reads do not wait
"""

# mypy: disable-error-code="import-untyped, misc, untyped-decorator"
from __future__ import annotations

import json
import os
import sys
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.db import models
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.http import require_http_methods
from highwater import new_transaction_id

_url = urlsplit(os.environ["DATABASE_URL"])
# A read is answered when everything that it shows is durable. A write is by default.
_options = "-c highwater.read_ack=durable" if os.environ.get("GATE", "on") else ""
settings.configure(
    ALLOWED_HOSTS=["127.0.0.1"],
    ROOT_URLCONF=__name__,
    # It sets Content-Length, without which each request would need a connection of its own.
    MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": _url.path[1:],
            "USER": _url.username,
            "PASSWORD": _url.password,
            "HOST": _url.hostname,
            "PORT": _url.port,
            "CONN_MAX_AGE": None,
            "OPTIONS": {"options": _options},
        }
    },
    LOGGING_CONFIG=None,
)
django.setup()


class Order(models.Model):
    id = models.UUIDField(primary_key=True, default=new_transaction_id)
    item = models.TextField()

    class Meta:
        app_label = "recipes"
        db_table = "recipe_order"


@require_http_methods(["GET", "POST"])
def orders(request: HttpRequest) -> JsonResponse:
    if request.method == "POST":
        order = Order.objects.create(item=json.loads(request.body)["item"])
        return JsonResponse({"id": order.id, "item": order.item}, status=201)
    return JsonResponse(list(Order.objects.order_by("-id").values("id", "item")[:20]), safe=False)


urlpatterns = [path("orders", orders)]


class Handler(WSGIRequestHandler):
    def log_message(self, *_args: object) -> None:
        """The recipe writes no line for each request."""


if __name__ == "__main__":
    server = ThreadedWSGIServer(("127.0.0.1", int(os.environ.get("PORT", "0"))), Handler)
    server.set_app(WSGIHandler())
    print(f"running on http://127.0.0.1:{server.server_port}", file=sys.stderr, flush=True)
    server.serve_forever()
