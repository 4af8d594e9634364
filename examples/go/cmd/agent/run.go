package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	assentv1 "example.com/agent/gen/assent/v1"
)

// A run is what one run has to remember: its results, and under which id it tries each approved call.
type run struct {
	id      string
	scope   *assentv1.Scope
	resumed bool

	Results  map[string]string `json:"results"`
	Attempts map[string]string `json:"attempts"`
}

func openRun(id string) (*run, error) {
	r := &run{id: id, Results: map[string]string{}, Attempts: map[string]string{}}
	r.scope = &assentv1.Scope{
		Tenant:    "shop",
		Principal: &assentv1.Principal{Id: "ada"},
		SessionId: id,
		RunId:     id,
		AgentPath: []string{"refunds"},
	}
	state, err := os.ReadFile(r.path())
	if errors.Is(err, fs.ErrNotExist) {
		return r, r.save()
	} else if err != nil {
		return nil, err
	}
	r.resumed = true
	return r, json.Unmarshal(state, r)
}

func (r *run) path() string { return r.id + ".json" }

// attempt gives the id under which a call is tried. It is saved before it is used.
func (r *run) attempt(callID string) (string, error) {
	if r.Attempts[callID] == "" {
		r.Attempts[callID] = rand.Text()
	}
	return r.Attempts[callID], r.save()
}

func (r *run) save() error {
	state, err := json.Marshal(r)
	if err != nil {
		return err
	}
	draft := fmt.Sprintf("%s.%d", r.id, os.Getpid())
	if err := os.WriteFile(draft, state, 0o600); err != nil {
		return err
	}
	return os.Rename(draft, r.path()) // A kill leaves the old state or the new one, never half of one.
}
