"""An agent that asks Assent before it runs a tool.

    python agent.py RUN_ID

The same command again, from any process, goes on with the run. Exit status: 0 the turn is finished, 3 some call is
still open, 1 something failed and the run may be gone on with.
"""

import json
import os
import sys
import uuid
from pathlib import Path

import grpc
from assent.v1.call_pb2 import ORIGIN_CODE, ToolCall
from assent.v1.decide_pb2 import EFFECT_ALLOW, EFFECT_SUSPEND, DecideRequest, DecideResponse
from assent.v1.decision_service_pb2_grpc import DecisionServiceStub
from assent.v1.execution_pb2 import ClaimRequest, CompleteRequest
from assent.v1.read_pb2 import GetSuspensionRequest
from assent.v1.resume_pb2 import Approval, ResumeRequest
from assent.v1.scope_pb2 import Principal, Scope
from assent.v1.suspension_pb2 import (
    COMPLETION_FAILURE,
    COMPLETION_SUCCESS,
    EXECUTION_COMPLETED,
    SUSPENSION_STATUS_APPROVED,
    SUSPENSION_STATUS_PENDING,
    Suspension,
)
from connection import connect
from tools import TOOLS, ToolError

OPEN = 3
AUTO_APPROVE_CENTS = 1_000

# A model would answer with such calls; this is a script, so that every run is the same.
TURN = [
    ("call-1", "orders.lookup", '{"order": "A-1042"}'),
    ("call-2", "orders.issue_refund", '{"order": "A-1042", "cents": 500}'),
    ("call-3", "orders.issue_refund", '{"order": "A-1042", "cents": 420000}'),
]


class Run:
    """What one run has to remember: its results, and under which id it tries each approved call."""

    def __init__(self, run_id: str) -> None:
        self.id = run_id
        self.scope = Scope(
            tenant="shop", principal=Principal(id="ada"), session_id=run_id, run_id=run_id, agent_path=["refunds"]
        )
        self._path = Path(f"{run_id}.json")
        self.resumed = self._path.exists()
        state = json.loads(self._path.read_text()) if self.resumed else {}
        self.results: dict[str, str] = state.get("results", {})
        self.attempts: dict[str, str] = state.get("attempts", {})
        self.save()

    def save(self) -> None:
        draft = self._path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps({"results": self.results, "attempts": self.attempts}))
        draft.replace(self._path)  # A kill leaves the old state or the new one, never half of one.


def run_turn(assent: DecisionServiceStub, run: Run) -> bool:
    """Takes each call as far as it can go. True if none is left open."""
    decided = []
    for call_id, tool, arguments in TURN:
        if call_id in run.results:
            continue
        call = ToolCall(
            call_id=call_id,
            tool=tool,
            origin=ORIGIN_CODE,
            annotations=TOOLS[tool].annotations,
            arguments_json=arguments,
        )
        # `resumed` whenever the call may have been asked about before: what is recorded then answers.
        decision = assent.Decide(DecideRequest(scope=run.scope, call=call, resumed=run.resumed))
        if decision.suspension.status == SUSPENSION_STATUS_PENDING:
            decision.suspension.CopyFrom(answer_small_refund(assent, run, decision.suspension))
        decided.append((call, decision))

    for call, decision in decided:
        result = settle(assent, run, call, decision)
        if result is None:
            print(f"{call.call_id} is open: {call.tool} {call.arguments_json} as {decision.suspension.id}", flush=True)
        else:
            run.results[call.call_id] = result  # What the model reads.
            run.save()
            print(f"{call.call_id}: {result}", flush=True)
    return len(run.results) == len(TURN)


def answer_small_refund(assent: DecisionServiceStub, run: Run, suspension: Suspension) -> Suspension:
    """The program's own handler: it approves what is small, and leaves the rest to a person."""
    cents = json.loads(suspension.call.arguments_json).get("cents")
    small = type(cents) is int and 0 < cents <= AUTO_APPROVE_CENTS
    if suspension.call.tool != "orders.issue_refund" or not small:
        return suspension
    try:
        return assent.Resume(
            ResumeRequest(
                suspension_id=suspension.id,
                scope=run.scope,
                by="refund-agent/auto",
                arguments_digest=suspension.arguments_digest,
                approval=Approval(approved=True, reason=f"at most {AUTO_APPROVE_CENTS} cents"),
            )
        ).suspension
    except grpc.RpcError as error:
        # Somebody was quicker, or the policy wants somebody else: what is recorded counts.
        if error.code() not in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.PERMISSION_DENIED):
            raise
        return assent.GetSuspension(GetSuspensionRequest(suspension_id=suspension.id, scope=run.scope))


def settle(assent: DecisionServiceStub, run: Run, call: ToolCall, decision: DecideResponse) -> str | None:
    """The result for the model, or None while the call is open."""
    if decision.effect == EFFECT_ALLOW:
        return run_tool(call.tool, call.arguments_json, key=f"{run.id}/{call.call_id}")[1]
    if decision.effect == EFFECT_SUSPEND and decision.suspension.status == SUSPENSION_STATUS_PENDING:
        return None
    if decision.effect == EFFECT_SUSPEND and decision.suspension.status == SUSPENSION_STATUS_APPROVED:
        return execute(assent, run, call, decision.suspension)
    # Denied. So is every effect and every status that this program does not know.
    return decision.suspension.resolution.message_for_model or decision.message_for_model or "Not executed."


def execute(assent: DecisionServiceStub, run: Run, call: ToolCall, suspension: Suspension) -> str | None:
    """Runs an approved call once, wherever an earlier process was killed."""
    if suspension.execution == EXECUTION_COMPLETED:
        return suspension.claims[-1].detail  # Done, and killed before the result was saved.

    # The attempt's id is saved before it is used: after a kill the same attempt goes on under its lease, and the shop
    # knows the refund by it. A lease that ends first leaves the call in doubt, and Claim refuses it to everybody.
    attempt = run.attempts.setdefault(call.call_id, str(uuid.uuid4()))
    run.save()
    claim = ClaimRequest(suspension_id=suspension.id, scope=run.scope, attempt_id=attempt, by=f"agent/{run.id}")
    try:
        receipt = assent.Claim(claim)
    except grpc.RpcError as error:
        if error.code() != grpc.StatusCode.FAILED_PRECONDITION:
            raise
        print(f"{call.call_id} was not run: {error.details()}", flush=True)
        return None

    # Run what Claim returned, and nothing else: a person may have edited it. If the tool ends without a clear answer
    # the exception ends this process, and the claim stays for the next one.
    succeeded, result = run_tool(call.tool, receipt.arguments_json, key=attempt)
    assent.Complete(
        CompleteRequest(
            suspension_id=suspension.id,
            scope=run.scope,
            attempt_id=attempt,
            outcome=COMPLETION_SUCCESS if succeeded else COMPLETION_FAILURE,
            detail=result,
        )
    )
    return result


def run_tool(tool: str, arguments_json: str, key: str) -> tuple[bool, str]:
    try:
        return True, TOOLS[tool].run(json.loads(arguments_json), key)
    except ToolError as error:
        return False, f"The tool failed: {error}"


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit("usage: python agent.py RUN_ID")
    try:
        return 0 if run_turn(connect(), Run(sys.argv[1])) else OPEN
    except grpc.RpcError as error:
        sys.exit(f"no answer from Assent, so nothing more is run: {error.code().name}: {error.details()}")


if __name__ == "__main__":
    sys.exit(main())
