#!/usr/bin/env python3
"""A shop to try the example with. It fails at random, rejects orders of nothing, always fails for unicorns, and has shipped an order
when it was asked for it three times."""
import argparse
import collections
import http.server
import json
import random


class Shop(http.server.BaseHTTPRequestHandler):
    requests = collections.Counter()

    def do_PUT(self):
        item = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["item"]
        if item == "nothing":
            return self.answer(422, "there is nothing to ship")
        if item == "unicorn" or random.random() < 0.4:
            return self.answer(503, "try again")
        self.requests[self.path] += 1
        self.answer(200, "shipped" if self.requests[self.path] >= 3 else "accepted")

    def answer(self, status, text):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, required=True)
server = http.server.ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Shop)
print(f"The shop is open at http://127.0.0.1:{server.server_port}", flush=True)
try:
    server.serve_forever()
except KeyboardInterrupt:
    pass
