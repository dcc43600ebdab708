package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// ContextHead is what a saved binding context says about itself.
type ContextHead struct {
	Binding string
	// GroupName is that of a context of a group.
	GroupName string
	// Type is Validating, Mutating or Conversion for reviews, and HTTP. Others are Startup: nobody needs to know more of
	// them.
	Type event.Type
	// Review is the review as JSON, Operation that of an admission review.
	Review    []byte
	Operation string
	// Step is what a conversion asks for.
	Step hook.ConversionStep
}

// IsReview tells whether the API server waits for an answer.
func (h ContextHead) IsReview() bool { return h.Type != event.Startup && h.Type != event.HTTP }

// ReadContexts reads a saved binding context file: a JSON array, or one context alone. It returns the file as hooks get
// it, and what it says about itself.
func ReadContexts(text []byte) (file []byte, heads []ContextHead, err error) {
	file = bytes.TrimSpace(text)
	if bytes.HasPrefix(file, []byte("{")) {
		file = bytes.Join([][]byte{[]byte("["), file, []byte("]")}, nil)
	}
	var items []struct {
		Binding, GroupName, Type, FromVersion, ToVersion string
		Review, Request                                  json.RawMessage
	}
	if err := json.Unmarshal(file, &items); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			line := 1 + bytes.Count(file[:min(int(syntax.Offset), len(file))], []byte("\n"))
			return nil, nil, fmt.Errorf("it is no JSON: %w in line %d", err, line)
		}
		return nil, nil, fmt.Errorf("it is no array of binding contexts: %w", err)
	}
	if len(items) == 0 {
		return nil, nil, errors.New("it has no binding context: a run has at least one")
	}
	for i, item := range items {
		if item.Binding == "" {
			return nil, nil, fmt.Errorf("context %d has no \"binding\": is it a binding context? A hook gets it in the file that $BINDING_CONTEXT_PATH names", i+1)
		}
		h := ContextHead{Binding: item.Binding, GroupName: item.GroupName, Review: item.Review}
		for typ, name := range answered {
			if name == item.Type {
				h.Type = typ
			}
		}
		if h.Type == event.Conversion {
			h.Step = hook.ConversionStep{From: item.FromVersion, To: item.ToVersion}
		}
		if h.Type != event.Startup && len(items) > 1 {
			return nil, nil, fmt.Errorf("context %d is of type %s and not alone: reviews and requests come one by one", i+1, item.Type)
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
