/** The tools: what each says about itself, and what it does. */
import type { Annotations } from "./gen/assent/v1/call.js";

const SHOP = process.env.SHOP ?? "http://127.0.0.1:8099";

export interface Tool {
  annotations: Partial<Annotations>;
  run(argumentsJson: string, idempotencyKey: string): Promise<string>;
}

/** The tool did not do what was asked, and that is certain. */
export class ToolError extends Error {}

export const TOOLS: Record<string, Tool> = {
  "orders.lookup": {
    annotations: { readOnlyHint: true },
    run: (argumentsJson) => shop(`/orders/${JSON.parse(argumentsJson).order}`),
  },
  "orders.issue_refund": {
    annotations: { destructiveHint: true },
    run: (argumentsJson, key) =>
      shop("/refunds", {
        method: "POST",
        body: argumentsJson,
        headers: { "Content-Type": "application/json", "Idempotency-Key": key },
      }),
  },
};

async function shop(path: string, request: RequestInit = {}): Promise<string> {
  // Far shorter than the lease of a claim, which is 5 minutes unless the policy says otherwise.
  const response = await fetch(SHOP + path, { ...request, signal: AbortSignal.timeout(10_000) });
  const text = await response.text();
  if (response.ok) return text;
  if (response.status < 500) throw new ToolError(text);
  throw new Error(`the shop: ${response.status}`); // What became of it is not known: that is not a failure.
}
