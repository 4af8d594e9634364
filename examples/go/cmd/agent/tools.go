package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	assentv1 "example.com/agent/gen/assent/v1"
)

// A tool says what it claims about itself, and what it does.
type tool struct {
	annotations *assentv1.Annotations
	run         func(ctx context.Context, argumentsJSON, idempotencyKey string) (string, error)
}

// A toolError says that the tool did not do what was asked, and that this is certain.
type toolError string

func (e toolError) Error() string { return string(e) }

var tools = map[string]tool{
	"orders.lookup":       {&assentv1.Annotations{ReadOnlyHint: new(true)}, lookup},
	"orders.issue_refund": {&assentv1.Annotations{DestructiveHint: new(true)}, issueRefund},
}

func lookup(ctx context.Context, argumentsJSON, _ string) (string, error) {
	var arguments struct{ Order string }
	if err := json.Unmarshal([]byte(argumentsJSON), &arguments); err != nil {
		return "", toolError(err.Error())
	}
	return shop(ctx, http.MethodGet, "/orders/"+url.PathEscape(arguments.Order), "", "")
}

func issueRefund(ctx context.Context, argumentsJSON, key string) (string, error) {
	return shop(ctx, http.MethodPost, "/refunds", argumentsJSON, key)
}

func shop(ctx context.Context, method, path, body, key string) (string, error) {
	// Far shorter than the lease of a claim, which is 5 minutes unless the policy says otherwise.
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	address := cmp.Or(os.Getenv("SHOP"), "http://127.0.0.1:8099")
	request, err := http.NewRequestWithContext(ctx, method, address+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return "", err
	case response.StatusCode >= 500: // What became of it is not known: that is not a failure.
		return "", fmt.Errorf("the shop: %s", response.Status)
	case response.StatusCode >= 400:
		return "", toolError(text)
	}
	return string(text), nil
}
