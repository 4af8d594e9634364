/**
 * An agent that asks Assent before it runs a tool.
 *
 *     node dist/agent.js RUN_ID
 *
 * The same command again, from any process, goes on with the run. Exit status: 0 the turn is finished, 3 some call is
 * still open, 1 something failed and the run may be gone on with.
 */
import { randomUUID } from "node:crypto";
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { ClientError, Status } from "nice-grpc";
import { connect } from "./connection.js";
import { Origin, ToolCall } from "./gen/assent/v1/call.js";
import { type DecideResponse, Effect } from "./gen/assent/v1/decide.js";
import type { DecisionServiceClient } from "./gen/assent/v1/decision_service.js";
import { Scope } from "./gen/assent/v1/scope.js";
import { Completion, Execution, type Suspension, SuspensionStatus } from "./gen/assent/v1/suspension.js";
import { TOOLS, ToolError } from "./tools.js";

const OPEN = 3;
const AUTO_APPROVE_CENTS = 1_000;

// A model would answer with such calls; this is a script, so that every run is the same.
const TURN = [
  { callId: "call-1", tool: "orders.lookup", argumentsJson: '{"order": "A-1042"}' },
  { callId: "call-2", tool: "orders.issue_refund", argumentsJson: '{"order": "A-1042", "cents": 500}' },
  { callId: "call-3", tool: "orders.issue_refund", argumentsJson: '{"order": "A-1042", "cents": 420000}' },
];

/** What one run has to remember: its results, and under which id it tries each approved call. */
class Run {
  readonly scope: Scope;
  readonly resumed: boolean;
  readonly results: Record<string, string>;
  readonly attempts: Record<string, string>;
  readonly #path: string;

  constructor(readonly id: string) {
    this.scope = Scope.create({
      tenant: "shop",
      principal: { id: "ada" },
      sessionId: id,
      runId: id,
      agentPath: ["refunds"],
    });
    this.#path = `${id}.json`;
    this.resumed = existsSync(this.#path);
    const state = this.resumed ? JSON.parse(readFileSync(this.#path, "utf8")) : {};
    this.results = state.results ?? {};
    this.attempts = state.attempts ?? {};
    this.save();
  }

  save(): void {
    const draft = `${this.id}.${process.pid}`;
    writeFileSync(draft, JSON.stringify({ results: this.results, attempts: this.attempts }));
    renameSync(draft, this.#path); // A kill leaves the old state or the new one, never half of one.
  }
}

/** Takes each call as far as it can go. True if none is left open. */
async function runTurn(assent: DecisionServiceClient, run: Run): Promise<boolean> {
  const decided: [ToolCall, DecideResponse][] = [];
  for (const { callId, tool, argumentsJson } of TURN) {
    if (callId in run.results) continue;
    const annotations = TOOLS[tool]!.annotations;
    const call = ToolCall.create({ callId, tool, origin: Origin.CODE, annotations, argumentsJson });
    // `resumed` whenever the call may have been asked about before: what is recorded then answers.
    const decision = await assent.decide({
      scope: run.scope,
      action: { $case: "call", value: call },
      resumed: run.resumed,
    });
    if (decision.suspension?.status === SuspensionStatus.PENDING) {
      decision.suspension = await answerSmallRefund(assent, run, decision.suspension);
    }
    decided.push([call, decision]);
  }

  for (const [call, decision] of decided) {
    const result = await settle(assent, run, call, decision);
    if (result === undefined) {
      console.log(`${call.callId} is open: ${call.tool} ${call.argumentsJson} as ${decision.suspension?.id}`);
    } else {
      run.results[call.callId] = result; // What the model reads.
      run.save();
      console.log(`${call.callId}: ${result}`);
    }
  }
  return TURN.every(({ callId }) => callId in run.results);
}

/** The program's own handler: it approves what is small, and leaves the rest to a person. */
async function answerSmallRefund(assent: DecisionServiceClient, run: Run, suspension: Suspension): Promise<Suspension> {
  const { id: suspensionId, call, argumentsDigest } = suspension;
  const { cents } = JSON.parse(call?.argumentsJson ?? "{}");
  const small = Number.isInteger(cents) && cents > 0 && cents <= AUTO_APPROVE_CENTS;
  if (call?.tool !== "orders.issue_refund" || !small) return suspension;
  try {
    const answered = await assent.resume({
      suspensionId,
      scope: run.scope,
      by: "refund-agent/auto",
      argumentsDigest,
      answer: { $case: "approval", value: { approved: true, reason: `at most ${AUTO_APPROVE_CENTS} cents` } },
    });
    return answered.suspension ?? suspension;
  } catch (error) {
    // Somebody was quicker, or the policy wants somebody else: what is recorded counts.
    if (!isStatus(error, Status.FAILED_PRECONDITION, Status.PERMISSION_DENIED)) throw error;
    return assent.getSuspension({ suspensionId, scope: run.scope });
  }
}

/** The result for the model, or undefined while the call is open. */
async function settle(
  assent: DecisionServiceClient,
  run: Run,
  call: ToolCall,
  { effect, suspension, messageForModel }: DecideResponse,
): Promise<string | undefined> {
  if (effect === Effect.ALLOW) {
    return (await runTool(call.tool, call.argumentsJson, `${run.id}/${call.callId}`)).result;
  }
  if (effect === Effect.SUSPEND && suspension?.status === SuspensionStatus.PENDING) return undefined;
  if (effect === Effect.SUSPEND && suspension?.status === SuspensionStatus.APPROVED) {
    return execute(assent, run, call, suspension);
  }
  // Denied. So is every effect and every status that this program does not know.
  return suspension?.resolution?.messageForModel || messageForModel || "Not executed.";
}

/** Runs an approved call once, wherever an earlier process was killed. */
async function execute(
  assent: DecisionServiceClient,
  run: Run,
  call: ToolCall,
  suspension: Suspension,
): Promise<string | undefined> {
  // Done, and killed before the result was saved.
  if (suspension.execution === Execution.COMPLETED) return suspension.claims.at(-1)?.detail;

  // The attempt's id is saved before it is used: after a kill the same attempt goes on under its lease, and the shop
  // knows the refund by it. A lease that ends first leaves the call in doubt, and Claim refuses it to everybody.
  const attemptId = (run.attempts[call.callId] ??= randomUUID());
  run.save();
  const claim = { suspensionId: suspension.id, scope: run.scope, attemptId };
  let argumentsJson: string;
  try {
    ({ argumentsJson } = await assent.claim({ ...claim, by: `agent/${run.id}` }));
  } catch (error) {
    if (!isStatus(error, Status.FAILED_PRECONDITION)) throw error;
    console.log(`${call.callId} was not run: ${error.details}`);
    return undefined;
  }

  // Run what Claim returned, and nothing else: a person may have edited it. If the tool ends without a clear answer
  // the exception ends this process, and the claim stays for the next one.
  const { succeeded, result } = await runTool(call.tool, argumentsJson, attemptId);
  const outcome = succeeded ? Completion.SUCCESS : Completion.FAILURE;
  await assent.complete({ ...claim, outcome, detail: result });
  return result;
}

async function runTool(tool: string, argumentsJson: string, key: string) {
  try {
    return { succeeded: true, result: await TOOLS[tool]!.run(argumentsJson, key) };
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    return { succeeded: false, result: `The tool failed: ${error.message}` };
  }
}

function isStatus(error: unknown, ...codes: Status[]): error is ClientError {
  return error instanceof ClientError && codes.includes(error.code);
}

const [runId, ...rest] = process.argv.slice(2);
if (!runId || rest.length > 0) {
  console.error("usage: node dist/agent.js RUN_ID");
  process.exit(1);
}
const { assent, channel } = connect();
try {
  process.exitCode = (await runTurn(assent, new Run(runId))) ? 0 : OPEN;
} catch (error) {
  if (!(error instanceof ClientError)) throw error;
  console.error(`no answer from Assent, so nothing more is run: ${Status[error.code]}: ${error.details}`);
  process.exitCode = 1;
} finally {
  channel.close();
}
