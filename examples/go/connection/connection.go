// Package connection holds the connection to Assent, the same for every program.
package connection

import (
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	assentv1 "example.com/agent/gen/assent/v1"
)

// Whatever Assent is asked may be asked again: Decide and Resume answer with what is recorded, Claim and Complete know
// their attempt. So one policy serves every RPC: a deadline, patience while the server restarts, retries with back-off.
const serviceConfig = `{
	"methodConfig": [{
		"name": [{}],
		"timeout": "30s",
		"waitForReady": true,
		"retryPolicy": {
			"maxAttempts": 5,
			"initialBackoff": "0.2s",
			"maxBackoff": "2s",
			"backoffMultiplier": 2,
			"retryableStatusCodes": ["UNAVAILABLE"]
		}
	}]
}`

// Open connects to the server that ASSENT_SERVER names.
func Open() (assentv1.DecisionServiceClient, *grpc.ClientConn, error) {
	address := os.Getenv("ASSENT_SERVER")
	if address == "" {
		address = "127.0.0.1:50051"
	}
	conn, err := grpc.NewClient(address,
		// Without credentials: for a server on this machine. Elsewhere use credentials.NewTLS, and a token.
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(serviceConfig),
	)
	if err != nil {
		return nil, nil, err
	}
	return assentv1.NewDecisionServiceClient(conn), conn, nil
}
