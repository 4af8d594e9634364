// A person's side: shows what is asked and answers it, from another process than the agent's.
//
//	answer SUSPENSION_ID approve|deny [REASON]
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/user"
	"strings"

	"example.com/agent/connection"
	assentv1 "example.com/agent/gen/assent/v1"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 3 || len(os.Args) > 4 || (os.Args[2] != "approve" && os.Args[2] != "deny") {
		log.Fatal("usage: answer SUSPENSION_ID approve|deny [REASON]")
	}
	if err := answer(context.Background(), os.Args[1], os.Args[2] == "approve", strings.Join(os.Args[3:], "")); err != nil {
		log.Fatal(err)
	}
}

func answer(ctx context.Context, id string, approved bool, reason string) error {
	assent, conn, err := connection.Open()
	if err != nil {
		return err
	}
	defer conn.Close()
	person, err := user.Current()
	if err != nil {
		return err
	}
	scope := &assentv1.Scope{Tenant: "shop"}
	s, err := assent.GetSuspension(ctx, &assentv1.GetSuspensionRequest{SuspensionId: id, Scope: scope})
	if err != nil {
		return err
	}
	fmt.Printf("%s %s: %s\n", s.GetCall().GetTool(), s.GetCall().GetArgumentsJson(), s.Reason)
	response, err := assent.Resume(ctx, &assentv1.ResumeRequest{
		SuspensionId: id,
		Scope:        scope,
		By:           person.Username,
		// The answer is for what was shown, and for nothing else.
		ArgumentsDigest: s.ArgumentsDigest,
		Answer:          &assentv1.ResumeRequest_Approval{Approval: &assentv1.Approval{Approved: &approved, Reason: reason}},
	})
	if err != nil {
		return err
	}
	fmt.Println(response.Outcome, response.GetSuspension().GetStatus())
	return nil
}
