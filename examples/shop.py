"""A stand-in for a shop's order service: what the agents' tools call.

    python3 shop.py [PORT] [LEDGER]

It needs Python alone. Every refund that was really made is one line of the ledger, a file that no agent writes to:
that is where one sees that an approved refund happened exactly once. Like most payment APIs it takes an
`Idempotency-Key`: a key that comes again gets the first answer and moves no money.
"""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ORDERS = {"A-1042": {"order": "A-1042", "customer": "Ada", "paid_cents": 430_000}}
LEDGER = Path(sys.argv[2] if len(sys.argv) > 2 else "refunds.jsonl")
LOCK = threading.Lock()


def refund(key: str, order: str, cents: int) -> dict:
    with LOCK:
        made = [json.loads(line) for line in LEDGER.read_text().splitlines()] if LEDGER.exists() else []
        for entry in made:
            if entry["key"] == key:
                return entry["refund"]
        new = {"id": f"refund-{len(made) + 1}", "order": order, "cents": cents}
        with LEDGER.open("a") as ledger:
            ledger.write(json.dumps({"key": key, "refund": new}) + "\n")
            ledger.flush()
            os.fsync(ledger.fileno())
        return new


class Shop(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        order = ORDERS.get(self.path.removeprefix("/orders/"))
        self.answer(200, order) if order else self.answer(404, {"error": "no such order"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers["Idempotency-Key"]
        if self.path != "/refunds" or not key:
            self.answer(400, {"error": "POST /refunds with an Idempotency-Key"})
        elif body["order"] not in ORDERS:
            self.answer(404, {"error": "no such order"})
        else:
            self.answer(200, refund(key, body["order"], body["cents"]))

    def answer(self, status: int, body: dict) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8099), Shop)
    print(f"the shop listens on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
