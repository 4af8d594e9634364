/** The connection to Assent, the same for every program. */
import { type Channel, createChannel, createClient } from "nice-grpc";
import { type DecisionServiceClient, DecisionServiceDefinition } from "./gen/assent/v1/decision_service.js";

// Whatever Assent is asked may be asked again: Decide and Resume answer with what is recorded, Claim and Complete know
// their attempt. So one policy serves every RPC: a deadline, patience while the server restarts, retries with back-off.
const SERVICE_CONFIG = {
  methodConfig: [
    {
      name: [{}],
      timeout: "30s",
      waitForReady: true,
      retryPolicy: {
        maxAttempts: 5,
        initialBackoff: "0.2s",
        maxBackoff: "2s",
        backoffMultiplier: 2,
        retryableStatusCodes: ["UNAVAILABLE"],
      },
    },
  ],
};

export function connect(): { assent: DecisionServiceClient; channel: Channel } {
  // Without credentials: for a server on this machine. Elsewhere use ChannelCredentials.createSsl(), and a token.
  const channel = createChannel(process.env.ASSENT_SERVER ?? "127.0.0.1:50051", undefined, {
    "grpc.service_config": JSON.stringify(SERVICE_CONFIG),
  });
  return { assent: createClient(DecisionServiceDefinition, channel), channel };
}
