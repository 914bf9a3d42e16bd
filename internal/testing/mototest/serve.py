# Serves moto on a port of 127.0.0.1 as moto_server does, but carries out one request at a time: moto does
# not keep concurrent ones apart, and two writes that exclude each other could both succeed. Connections
# have threads of their own, so that one that is silent holds up nobody.
import logging
import sys
from threading import Lock

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.server import MotoRequestHandler
from werkzeug.serving import run_simple

logging.getLogger("werkzeug").setLevel(logging.ERROR)  # not each request
app = DomainDispatcherApplication(create_backend_app)
lock = Lock()


def serve(environ, start_response):
    with lock:
        return app(environ, start_response)


run_simple("127.0.0.1", int(sys.argv[1]), serve, threaded=True, request_handler=MotoRequestHandler)
