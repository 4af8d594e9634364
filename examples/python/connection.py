"""The connection to Assent, the same for every program."""

import json
import os

import grpc
from assent.v1.decision_service_pb2_grpc import DecisionServiceStub

# Whatever Assent is asked may be asked again: Decide and Resume answer with what is recorded, Claim and Complete know
# their attempt. So one policy serves every RPC: a deadline, patience while the server restarts, retries with back-off.
SERVICE_CONFIG = {
    "methodConfig": [
        {
            "name": [{}],
            "timeout": "30s",
            "waitForReady": True,
            "retryPolicy": {
                "maxAttempts": 5,
                "initialBackoff": "0.2s",
                "maxBackoff": "2s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ]
}


def connect() -> DecisionServiceStub:
    # Plain text is for a server on this machine. Elsewhere use grpc.secure_channel, and a token.
    channel = grpc.insecure_channel(
        os.environ.get("ASSENT_SERVER", "127.0.0.1:50051"),
        options=[("grpc.service_config", json.dumps(SERVICE_CONFIG))],
    )
    return DecisionServiceStub(channel)
