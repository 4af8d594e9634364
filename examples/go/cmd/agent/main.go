// An agent that asks Assent before it runs a tool.
//
//	agent RUN_ID
//
// The same command again, from any process, goes on with the run. Exit status: 0 the turn is finished, 3 some call is
// still open, 1 something failed and the run may be gone on with.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"example.com/agent/connection"
	assentv1 "example.com/agent/gen/assent/v1"
)

const (
	exitOpen         = 3
	autoApproveCents = 1_000
)

// A model would answer with such calls; this is a script, so that every run is the same.
var turn = []struct{ callID, tool, arguments string }{
	{"call-1", "orders.lookup", `{"order": "A-1042"}`},
	{"call-2", "orders.issue_refund", `{"order": "A-1042", "cents": 500}`},
	{"call-3", "orders.issue_refund", `{"order": "A-1042", "cents": 420000}`},
}

type agent struct {
	assent assentv1.DecisionServiceClient
	run    *run
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: agent RUN_ID")
	}
	assent, conn, err := connection.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	run, err := openRun(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	a := agent{assent, run}
	if err := a.runTurn(context.Background()); err != nil {
		log.Fatalf("nothing more is run: %v", err)
	}
	if len(run.Results) < len(turn) {
		os.Exit(exitOpen)
	}
}

// runTurn takes each call as far as it can go. What has no result afterwards is open.
func (a *agent) runTurn(ctx context.Context) error {
	type decided struct {
		call     *assentv1.ToolCall
		decision *assentv1.DecideResponse
	}
	var decisions []decided
	for _, c := range turn {
		if _, done := a.run.Results[c.callID]; done {
			continue
		}
		call := &assentv1.ToolCall{
			CallId:        c.callID,
			Tool:          c.tool,
			Origin:        assentv1.Origin_ORIGIN_CODE,
			Annotations:   tools[c.tool].annotations,
			ArgumentsJson: c.arguments,
		}
		decision, err := a.assent.Decide(ctx, &assentv1.DecideRequest{
			Scope:  a.run.scope,
			Action: &assentv1.DecideRequest_Call{Call: call},
			// Whenever the call may have been asked about before: what is recorded then answers.
			Resumed: a.run.resumed,
		})
		if err != nil {
			return err
		}
		if decision.GetSuspension().GetStatus() == assentv1.SuspensionStatus_SUSPENSION_STATUS_PENDING {
			if decision.Suspension, err = a.answerSmallRefund(ctx, decision.Suspension); err != nil {
				return err
			}
		}
		decisions = append(decisions, decided{call, decision})
	}

	for _, d := range decisions {
		result, done, err := a.settle(ctx, d.call, d.decision)
		if err != nil {
			return err
		}
		if !done {
			fmt.Printf("%s is open: %s %s as %s\n",
				d.call.CallId, d.call.Tool, d.call.ArgumentsJson, d.decision.GetSuspension().GetId())
			continue
		}
		a.run.Results[d.call.CallId] = result // What the model reads.
		if err := a.run.save(); err != nil {
			return err
		}
		fmt.Printf("%s: %s\n", d.call.CallId, result)
	}
	return nil
}

// answerSmallRefund is the program's own handler: it approves what is small, and leaves the rest to a person.
func (a *agent) answerSmallRefund(ctx context.Context, s *assentv1.Suspension) (*assentv1.Suspension, error) {
	// A map, as a struct would take CENTS for cents.
	var arguments map[string]any
	if err := json.Unmarshal([]byte(s.GetCall().GetArgumentsJson()), &arguments); err != nil {
		return nil, err
	}
	cents, isNumber := arguments["cents"].(float64)
	if s.GetCall().GetTool() != "orders.issue_refund" || !isNumber || cents <= 0 || cents > autoApproveCents {
		return s, nil
	}
	response, err := a.assent.Resume(ctx, &assentv1.ResumeRequest{
		SuspensionId:    s.Id,
		Scope:           a.run.scope,
		By:              "refund-agent/auto",
		ArgumentsDigest: s.ArgumentsDigest,
		Answer: &assentv1.ResumeRequest_Approval{Approval: &assentv1.Approval{
			Approved: new(true),
			Reason:   fmt.Sprintf("at most %d cents", autoApproveCents),
		}},
	})
	switch status.Code(err) {
	case codes.OK:
		return response.Suspension, nil
	case codes.FailedPrecondition, codes.PermissionDenied:
		// Somebody was quicker, or the policy wants somebody else: what is recorded counts.
		return a.assent.GetSuspension(ctx, &assentv1.GetSuspensionRequest{SuspensionId: s.Id, Scope: a.run.scope})
	}
	return nil, err
}

// settle returns the result for the model, or false while the call is open.
func (a *agent) settle(
	ctx context.Context, call *assentv1.ToolCall, d *assentv1.DecideResponse,
) (result string, done bool, err error) {
	switch d.Effect {
	case assentv1.Effect_EFFECT_ALLOW:
		result, _, err := runTool(ctx, call.Tool, call.ArgumentsJson, a.run.id+"/"+call.CallId)
		return result, err == nil, err
	case assentv1.Effect_EFFECT_SUSPEND:
		switch d.GetSuspension().GetStatus() {
		case assentv1.SuspensionStatus_SUSPENSION_STATUS_PENDING:
			return "", false, nil
		case assentv1.SuspensionStatus_SUSPENSION_STATUS_APPROVED:
			return a.execute(ctx, call, d.Suspension)
		}
	}
	// Denied. So is every effect and every status that this program does not know.
	return cmp.Or(d.GetSuspension().GetResolution().GetMessageForModel(), d.MessageForModel, "Not executed."), true, nil
}

// execute runs an approved call once, wherever an earlier process was killed.
func (a *agent) execute(
	ctx context.Context, call *assentv1.ToolCall, s *assentv1.Suspension,
) (result string, done bool, err error) {
	if s.Execution == assentv1.Execution_EXECUTION_COMPLETED {
		return s.Claims[len(s.Claims)-1].Detail, true, nil // Done, and killed before the result was saved.
	}

	// The attempt's id is saved before it is used: after a kill the same attempt goes on under its lease, and the shop
	// knows the refund by it. A lease that ends first leaves the call in doubt, and Claim refuses it to everybody.
	attempt, err := a.run.attempt(call.CallId)
	if err != nil {
		return "", false, err
	}
	receipt, err := a.assent.Claim(ctx, &assentv1.ClaimRequest{
		SuspensionId: s.Id,
		Scope:        a.run.scope,
		AttemptId:    attempt,
		By:           "agent/" + a.run.id,
	})
	if status.Code(err) == codes.FailedPrecondition {
		fmt.Printf("%s was not run: %s\n", call.CallId, status.Convert(err).Message())
		return "", false, nil
	} else if err != nil {
		return "", false, err
	}

	// Run what Claim returned, and nothing else: a person may have edited it. If the tool ends without a clear answer
	// the error ends this process, and the claim stays for the next one.
	result, outcome, err := runTool(ctx, call.Tool, receipt.ArgumentsJson, attempt)
	if err != nil {
		return "", false, err
	}
	_, err = a.assent.Complete(ctx, &assentv1.CompleteRequest{
		SuspensionId: s.Id,
		Scope:        a.run.scope,
		AttemptId:    attempt,
		Outcome:      outcome,
		Detail:       result,
	})
	return result, err == nil, err
}

func runTool(ctx context.Context, name, argumentsJSON, key string) (string, assentv1.Completion, error) {
	result, err := tools[name].run(ctx, argumentsJSON, key)
	var failed toolError
	if errors.As(err, &failed) {
		return "The tool failed: " + string(failed), assentv1.Completion_COMPLETION_FAILURE, nil
	}
	return result, assentv1.Completion_COMPLETION_SUCCESS, err
}
