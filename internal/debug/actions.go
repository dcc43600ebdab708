package debug

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// caller is the key of the client of the socket that has sent a request.
type caller struct{}

// client is a process at the other end of the socket.
type client struct {
	// uid is its user, or "unknown".
	uid string
	// hook: the operator has started it, or a process that it has started.
	hook bool
}

// acted is what an action has done, or would do.
type acted struct {
	Action string `json:"action"`
	// Count is how many lanes or tasks it was about.
	Count int `json:"count"`
	// Task is the id of a task that was queued.
	Task   string `json:"task,omitempty"`
	DryRun bool   `json:"dryRun,omitempty"`
	// Message is what happened, in words.
	Message string `json:"message"`
}

// done is an action on so many things.
func done(n int, format string, args ...any) acted {
	return acted{Count: n, Message: fmt.Sprintf(format, args...)}
}

// act answers a route that changes something: only to clients of the socket, and with a record of who did it.
func (a *API) act(rt Route, r request) (answer, error) {
	uid, err := actor(r)
	if err != nil {
		return answer{}, err
	}
	if _, err := a.o.Hooks.all(); err != nil { // before, the stages are not complete
		return answer{}, err
	}
	if err := r.ParseForm(); err != nil {
		return answer{}, refuse(http.StatusBadRequest, "the form cannot be read: %v", err)
	}
	r.dryRun = r.PostForm.Get("dryRun") == "true"
	done, err := rt.act(r)
	path, _ := cutFormat(r.URL.Path)
	done.Action, done.DryRun = strings.TrimPrefix(path, "/"), r.dryRun
	if done.Count > 0 && !r.dryRun { // also a part of what was requested
		a.o.Log.Info("A command has changed the operator", "command", done.Action, "arguments", r.PostForm.Encode(), "uid", uid,
			"result", done.Message)
	}
	if err != nil {
		return answer{}, err
	}
	if r.dryRun {
		done.Message = "dry run: " + done.Message
	}
	if here := a.here(&rt); here != "" { // the others do not know of it
		done.Message += "; " + here
	}
	return answer{value: done, text: done.Message + "\n"}, nil
}

// actor is the uid of a client of the socket that is no hook. Others change nothing.
func actor(r request) (uid string, err error) {
	c, ok := r.Context().Value(caller{}).(client)
	switch {
	case !ok:
		return "", refuse(http.StatusForbidden, "commands that change something are accepted on the debug socket only").
			hint("run the command where the operator runs")
	case c.hook:
		return "", refuse(http.StatusForbidden, "commands that change something are not accepted from hooks").
			hint("run the command outside of hooks, in a Pod by kubectl exec")
	}
	return c.uid, nil
}

// withCaller makes requests of the socket known as such.
func withCaller(ctx context.Context, c client) context.Context {
	return context.WithValue(ctx, caller{}, c)
}
