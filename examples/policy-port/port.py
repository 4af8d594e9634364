"""A shop's own authorization, as Assent's policy port: who may do what stands in the shop's database.

    python port.py [PORT] [DATABASE]

Assent asks it after the rules of the policy document. Whatever goes wrong in here is an error on the wire, and an error
is a denial: nothing has to be caught.
"""

import json
import sqlite3
import sys
from concurrent import futures

import grpc
from assent.v1.policy_port_pb2 import (
    VERDICT_ALLOW,
    VERDICT_ASK,
    VERDICT_DENY,
    AllowRunRequest,
    AllowRunResponse,
    AllowToolRequest,
    AllowToolResponse,
)
from assent.v1.policy_port_service_pb2_grpc import (
    PolicyPortServiceServicer,
    add_PolicyPortServiceServicer_to_server,
)

PERMISSION = """
    SELECT permission.most_cents FROM staff JOIN permission USING (role)
    WHERE staff.tenant = ? AND staff.person = ? AND permission.tool = ?
    ORDER BY permission.most_cents IS NULL DESC, permission.most_cents DESC
"""


class Port(PolicyPortServiceServicer):
    def __init__(self, database: str) -> None:
        self.database = f"file:{database}?mode=ro"

    def row(self, query: str, *values: str) -> tuple | None:
        # A connection for each question: what somebody changes in the database holds for the next one.
        connection = sqlite3.connect(self.database, uri=True)
        try:
            return connection.execute(query, values).fetchone()
        finally:
            connection.close()

    def AllowTool(self, request: AllowToolRequest, context: grpc.ServicerContext) -> AllowToolResponse:
        scope, call = request.scope, request.call
        person = scope.principal.id
        # The role is the database's. What the agent says of roles (`scope.principal.roles`) is not asked.
        found = self.row(PERMISSION, scope.tenant, person, call.tool)
        if found is None:
            return AllowToolResponse(verdict=VERDICT_DENY, reason=f"{person or 'nobody'} may not use {call.tool}")
        (most_cents,) = found
        if most_cents is None:
            return AllowToolResponse(verdict=VERDICT_ALLOW)
        cents = json.loads(call.arguments_json)["cents"]
        if type(cents) is int and 0 <= cents <= most_cents:
            return AllowToolResponse(verdict=VERDICT_ALLOW)
        return AllowToolResponse(verdict=VERDICT_ASK, reason=f"{person} alone may refund at most {most_cents} cents")

    def AllowRun(self, request: AllowRunRequest, context: grpc.ServicerContext) -> AllowRunResponse:
        version = request.run.version
        found = self.row("SELECT state FROM release WHERE version = ?", version)
        match found:
            case ("live",):
                return AllowRunResponse(verdict=VERDICT_ALLOW)
            case ("trial",):
                return AllowRunResponse(verdict=VERDICT_ASK, reason=f"version {version} is on trial")
            case _:
                return AllowRunResponse(verdict=VERDICT_DENY, reason=f"version {version} is not released")


def main() -> None:
    port = sys.argv[1] if len(sys.argv) > 1 else "7000"
    database = sys.argv[2] if len(sys.argv) > 2 else "staff.db"
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=16))
    add_PolicyPortServiceServicer_to_server(Port(database), server)
    # Plain text is for this machine.
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    print(f"the policy port listens on http://127.0.0.1:{bound}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
