"""A Python API with a limit: so many calls of each X-API-Key in a minute, counted in a Redis.

    python_app.py CONDUCT STORE_PORT LIMIT

CONDUCT: `flask-swallow`, Flask-Limiter with swallow_errors, so that a store that fails is logged and
lets the caller in; `flask-fallback`, the same with its in-memory fallback; `django-cache`,
django-ratelimit on a django-redis cache whose exceptions are ignored, as is usual where a cache is
no reason to be down. Clients of Redis are as they come. Served by waitress with 32 threads.
Prints its port.
"""
import logging
import socket
import sys

import waitress

CONDUCT, STORE_PORT, LIMIT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
STORE = f"redis://127.0.0.1:{STORE_PORT}/0"


def flask_app():
    import flask
    import flask_limiter

    app = flask.Flask("drill")
    more = {"in_memory_fallback_enabled": True} if CONDUCT == "flask-fallback" else {"swallow_errors": True}
    limiter = flask_limiter.Limiter(lambda: flask.request.headers.get("X-API-Key", ""), app=app,
                                    storage_uri=STORE, **more)
    app.get("/")(limiter.limit(f"{LIMIT} per minute")(lambda: "here"))
    return app


def django_app():
    import django
    from django.conf import settings
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpResponse
    from django.urls import path

    settings.configure(
        SECRET_KEY="drill", ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, MIDDLEWARE=[],
        CACHES={"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": STORE,
                            "OPTIONS": {"IGNORE_EXCEPTIONS": True}}})
    django.setup()
    from django_ratelimit.core import is_ratelimited

    def here(request):
        over = is_ratelimited(request, group="drill", key="header:x-api-key", rate=f"{LIMIT}/m",
                              increment=True)
        return HttpResponse("over" if over else "here", status=429 if over else 200)

    globals()["urlpatterns"] = [path("", here)]
    return get_wsgi_application()


logging.disable(logging.CRITICAL)
listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
app = django_app() if CONDUCT == "django-cache" else flask_app()
print(listening.getsockname()[1], flush=True)
waitress.serve(app, sockets=[listening], threads=32, connection_limit=4000,
               asyncore_use_poll=True, _quiet=True)
