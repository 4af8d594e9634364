"""A person's side: shows what is asked and answers it, from another process than the agent's.

    python answer.py SUSPENSION_ID approve|deny [REASON]
"""

import getpass
import sys

import grpc
from assent.v1.read_pb2 import GetSuspensionRequest
from assent.v1.resume_pb2 import Approval, ResumeOutcome, ResumeRequest
from assent.v1.scope_pb2 import Scope
from assent.v1.suspension_pb2 import SuspensionStatus
from connection import connect


def main() -> None:
    if len(sys.argv) not in (3, 4) or sys.argv[2] not in ("approve", "deny"):
        sys.exit("usage: python answer.py SUSPENSION_ID approve|deny [REASON]")
    assent, scope = connect(), Scope(tenant="shop")
    try:
        suspension = assent.GetSuspension(GetSuspensionRequest(suspension_id=sys.argv[1], scope=scope))
        print(f"{suspension.call.tool} {suspension.call.arguments_json}: {suspension.reason}")
        response = assent.Resume(
            ResumeRequest(
                suspension_id=suspension.id,
                scope=scope,
                by=getpass.getuser(),
                # The answer is for what was shown, and for nothing else.
                arguments_digest=suspension.arguments_digest,
                approval=Approval(approved=sys.argv[2] == "approve", reason="".join(sys.argv[3:])),
            )
        )
    except grpc.RpcError as error:
        sys.exit(f"{error.code().name}: {error.details()}")
    print(ResumeOutcome.Name(response.outcome), SuspensionStatus.Name(response.suspension.status))


if __name__ == "__main__":
    main()
