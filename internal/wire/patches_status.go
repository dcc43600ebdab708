package wire

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// What the API requires of conditions and Events.
const (
	maxConditionType    = 316
	maxConditionReason  = 1024
	maxConditionMessage = 32 << 10
	maxEventReason      = 128
)

var conditionReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// ownText returns a text, or reports why it is none.
func (p *patchParser) ownText(number int, key string, t *ownText) string {
	if t.mistyped {
		p.wrong(number, key, "must be a string", "write it in quotes")
	}
	return t.text
}

// requiredText returns a text of at most limit bytes; it is empty if it has been reported.
func (p *patchParser) requiredText(number int, what, key string, t *ownText, limit int) string {
	text := p.ownText(number, key, t)
	switch {
	case t.mistyped:
	case text == "":
		p.wrong(number, key, "is required for "+what, "")
	case len(text) > limit:
		p.wrong(number, key, fmt.Sprintf("has %d bytes", len(text)), fmt.Sprintf("use at most %d", limit))
		return ""
	}
	return text
}

// choice returns a text that is one of the allowed ones; it is empty if it has been reported.
func (p *patchParser) choice(number int, what, key string, t *ownText, allowed ...string) string {
	text := p.requiredText(number, what, key, t, maxConditionReason)
	if text != "" && !slices.Contains(allowed, text) {
		p.wrong(number, key, notOneOf(text, allowed), suggestion(text, allowed))
		return ""
	}
	return text
}

func (p *patchParser) condition(out *effect.Patch, d *patchDocument) {
	const what = "Condition"
	n := out.Number
	if out.Subresource != "" && out.Subresource != "status" {
		p.wrong(n, "subresource", "is always status with Condition", "remove the key")
	}
	out.Subresource = "status"
	c := &effect.Condition{
		Type:    p.requiredText(n, what, "type", &d.Type, maxConditionType),
		Status:  p.choice(n, what, "status", &d.Status, "True", "False", "Unknown"),
		Reason:  p.requiredText(n, what, "reason", &d.Reason, maxConditionReason),
		Message: cut(p.ownText(n, "message", &d.Message), maxConditionMessage),
	}
	if c.Type != "" && !isConditionType(c.Type) {
		p.wrong(n, "type", fmt.Sprintf("%q is not a type of a condition", c.Type),
			`write a word such as "Ready", or with a prefix, such as "example.com/Ready"`)
	}
	if c.Reason != "" && !conditionReason.MatchString(c.Reason) {
		p.wrong(n, "reason", fmt.Sprintf("%q is not a reason of a condition", c.Reason),
			`write a word for programs, such as "ServerUnreachable", and the details into message`)
	}
	out.Condition = c
}

// isConditionType reports whether a text may be the type of a condition: they are written as the keys of labels are.
func isConditionType(text string) bool { return len(content.IsLabelKey(text)) == 0 }

func (p *patchParser) event(out *effect.Patch, d *patchDocument) {
	const what = "Event"
	n := out.Number
	if out.Subresource != "" {
		p.wrong(n, "subresource", "is not possible with Event", "remove the key")
	}
	var about struct{ APIVersion, Kind, Namespace, Name, UID string }
	if raw, ok := p.part(n, "regarding", d.Regarding); ok && json.Unmarshal(raw, &about) != nil {
		p.wrong(n, "regarding", "must be a reference with apiVersion, kind, namespace, name and uid, all strings",
			"namespace and uid may be left out")
	} else if ok {
		p.required(n, " for "+what, "regarding.apiVersion", about.APIVersion, "regarding.kind", about.Kind, "regarding.name", about.Name)
		p.inPath(n, "regarding.name", about.Name, "regarding.namespace", about.Namespace)
	}
	out.APIVersion, out.Kind, out.Namespace, out.Name = about.APIVersion, about.Kind, about.Namespace, about.Name
	out.Event = &effect.Event{
		UID:    about.UID,
		Type:   p.choice(n, what, "type", &d.Type, "Normal", "Warning"),
		Reason: p.requiredText(n, what, "reason", &d.Reason, maxEventReason),
		Action: p.requiredText(n, what, "action", &d.Action, maxEventReason),
		Note:   cut(p.ownText(n, "note", &d.Note), effect.MaxNote),
	}
}
