/**
 * A person's side: shows what is asked and answers it, from another process than the agent's.
 *
 *     node dist/answer.js SUSPENSION_ID approve|deny [REASON]
 */
import { userInfo } from "node:os";
import { ClientError, Status } from "nice-grpc";
import { connect } from "./connection.js";
import { ResumeOutcome } from "./gen/assent/v1/resume.js";
import { SuspensionStatus } from "./gen/assent/v1/suspension.js";

const [suspensionId, verdict, reason, ...rest] = process.argv.slice(2);
if (!suspensionId || (verdict !== "approve" && verdict !== "deny") || rest.length > 0) {
  console.error("usage: node dist/answer.js SUSPENSION_ID approve|deny [REASON]");
  process.exit(1);
}
const scope = { tenant: "shop" };
const { assent, channel } = connect();
try {
  const asked = await assent.getSuspension({ suspensionId, scope });
  console.log(`${asked.call?.tool} ${asked.call?.argumentsJson}: ${asked.reason}`);
  const { outcome, suspension } = await assent.resume({
    suspensionId,
    scope,
    by: userInfo().username,
    // The answer is for what was shown, and for nothing else.
    argumentsDigest: asked.argumentsDigest,
    answer: { $case: "approval", value: { approved: verdict === "approve", reason } },
  });
  console.log(ResumeOutcome[outcome], SuspensionStatus[suspension?.status ?? SuspensionStatus.UNSPECIFIED]);
} catch (error) {
  if (!(error instanceof ClientError)) throw error;
  console.error(`${Status[error.code]}: ${error.details}`);
  process.exitCode = 1;
} finally {
  channel.close();
}
