"""The tools: what each says about itself, and what it does."""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass

from assent.v1.call_pb2 import Annotations

SHOP = os.environ.get("SHOP", "http://127.0.0.1:8099")


class ToolError(Exception):
    """The tool did not do what was asked, and that is certain."""


def lookup(arguments: dict, _key: str) -> str:
    return _shop("GET", f"/orders/{arguments['order']}")


def issue_refund(arguments: dict, key: str) -> str:
    return _shop("POST", "/refunds", arguments, key)


def _shop(method: str, path: str, body: dict | None = None, key: str = "") -> str:
    request = urllib.request.Request(
        SHOP + path,
        method=method,
        data=json.dumps(body).encode() if body is not None else None,
        headers={"Content-Type": "application/json", "Idempotency-Key": key},
    )
    try:
        # Far shorter than the lease of a claim, which is 5 minutes unless the policy says otherwise.
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.read().decode()
    except urllib.error.HTTPError as error:
        if error.code < 500:
            raise ToolError(error.read().decode()) from error
        raise  # What became of it is not known: that is not a failure.


@dataclass(frozen=True)
class Tool:
    annotations: Annotations
    run: Callable[[dict, str], str]  # arguments, idempotency key -> result


TOOLS = {
    "orders.lookup": Tool(Annotations(read_only_hint=True), lookup),
    "orders.issue_refund": Tool(Annotations(destructive_hint=True), issue_refund),
}
