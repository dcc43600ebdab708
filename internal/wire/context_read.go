package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// ContextHead is the identity of a saved binding context.
type ContextHead struct {
	Binding string
	// GroupName is set for contexts of a group.
	GroupName string
	// Type is Validating, Mutating, Conversion or HTTP, and Startup for all others.
	Type event.Type
	// Review is the review as JSON; Operation is the operation of an admission review.
	Review    []byte
	Operation string
	// Step is the requested conversion.
	Step hook.ConversionStep
	// Objects are the objects of the context. A name is empty if the context has only the filter result.
	Objects []event.ObjectName
}

// IsReview reports whether the API server waits for an answer.
func (h ContextHead) IsReview() bool { return h.Type != event.Startup && h.Type != event.HTTP }

// savedObject is the part of an object that identifies it in its binding.
type savedObject struct {
	Metadata struct{ Namespace, Name string }
}

func (o *savedObject) name() event.ObjectName {
	if o == nil {
		return event.ObjectName{}
	}
	return event.ObjectName{Namespace: o.Metadata.Namespace, Name: o.Metadata.Name}
}

// ReadContexts reads a saved binding context file: a JSON array, or a single context. It returns the file as hooks receive
// it, and the identity of each context.
func ReadContexts(text []byte) (file []byte, heads []ContextHead, err error) {
	file = bytes.TrimSpace(text)
	if bytes.HasPrefix(file, []byte("{")) {
		file = bytes.Join([][]byte{[]byte("["), file, []byte("]")}, nil)
	}
	var items []struct {
		Binding, GroupName, Type, FromVersion, ToVersion string
		Review, Request                                  json.RawMessage
		Object                                           *savedObject
		Objects                                          []struct{ Object *savedObject }
	}
	if err := json.Unmarshal(file, &items); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			line := 1 + bytes.Count(file[:min(int(syntax.Offset), len(file))], []byte("\n"))
			return nil, nil, fmt.Errorf("it is not JSON: %w in line %d", err, line)
		}
		var typed *json.UnmarshalTypeError
		if errors.As(err, &typed) { // its text has types of Go
			err = fmt.Errorf("%s is of type %s", cmp.Or(typed.Field, "a part of it"), typed.Value)
		}
		return nil, nil, fmt.Errorf("it is not an array of binding contexts: %w", err)
	}
	if len(items) == 0 {
		return nil, nil, errors.New("it has no binding context: a run has at least one")
	}
	for i, item := range items {
		if item.Binding == "" {
			return nil, nil, fmt.Errorf("context %d has no \"binding\": is it a binding context, as in the file at $BINDING_CONTEXT_PATH?", i+1)
		}
		h := ContextHead{Binding: item.Binding, GroupName: item.GroupName, Review: item.Review}
		if item.Type == "Event" || item.Type == "Requeue" {
			h.Objects = append(h.Objects, item.Object.name())
		}
		for _, o := range item.Objects {
			h.Objects = append(h.Objects, o.Object.name())
		}
		for typ, name := range answered {
			if name == item.Type {
				h.Type = typ
			}
		}
		if h.Type == event.Conversion {
			h.Step = hook.ConversionStep{From: item.FromVersion, To: item.ToVersion}
		}
		if h.Type != event.Startup && len(items) > 1 {
			return nil, nil, fmt.Errorf("context %d is of type %s and not the only one: a review or request is in a run of its own", i+1, item.Type)
		}
		if h.Type == event.HTTP && item.Request == nil {
			return nil, nil, fmt.Errorf("context %d is of type HTTP and has no request", i+1)
		}
		var review struct{ Request struct{ Operation string } }
		if h.IsReview() && (item.Review == nil || json.Unmarshal(item.Review, &review) != nil) {
			return nil, nil, fmt.Errorf("context %d is of type %s and has no review", i+1, item.Type)
		}
		h.Operation = strings.ToUpper(review.Request.Operation)
		heads = append(heads, h)
	}
	return append(file, '\n'), heads, nil
}
