package wire

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

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

// reported are the keys of texts that only a Condition and an Event have. Other operations ignore them, whatever their values are.
var reported = []string{"type", "status", "reason", "message", "action", "note"}

// text returns one of them with at most limit bytes; it is empty if it has been reported.
func (p *patchParser) text(d *patchDocument, key string, limit int) string {
	switch text := *d.field(key).(*string); {
	case slices.Contains(d.mistyped, key):
		p.wrong(d.number, key, "must be a string", "write it in quotes")
	case key == "message" || key == "note":
		return cut(text, limit)
	case text == "":
		p.wrong(d.number, key, "is required for "+d.Operation.Operation, "")
	case len(text) > limit:
		p.wrong(d.number, key, fmt.Sprintf("has %d bytes", len(text)), fmt.Sprintf("use at most %d", limit))
	default:
		return text
	}
	return ""
}

// choice returns a text that is one of the allowed ones; it is empty if it has been reported.
func (p *patchParser) choice(d *patchDocument, key string, allowed ...string) string {
	text := p.text(d, key, maxConditionReason)
	if text != "" && !slices.Contains(allowed, text) {
		p.wrong(d.number, key, notOneOf(text, allowed), suggestion(text, allowed))
		return ""
	}
	return text
}

func (p *patchParser) condition(out *effect.Patch, d *patchDocument) {
	n := out.Number
	if out.Subresource != "" && out.Subresource != "status" {
		p.wrong(n, "subresource", "is always status with Condition", "remove the key")
	}
	out.Subresource = "status"
	c := &effect.Condition{
		Type: p.text(d, "type", maxConditionType), Status: p.choice(d, "status", "True", "False", "Unknown"),
		Reason: p.text(d, "reason", maxConditionReason), Message: p.text(d, "message", maxConditionMessage),
	}
	if problem, hint := checkConditionType(c.Type); c.Type != "" && problem != "" {
		p.wrong(n, "type", problem, hint)
	}
	if c.Reason != "" && !conditionReason.MatchString(c.Reason) {
		p.wrong(n, "reason", fmt.Sprintf("%q is not a reason of a condition", c.Reason),
			`write a word for programs, such as "ServerUnreachable", and the details into message`)
	}
	out.Condition = c
}

func (p *patchParser) event(out *effect.Patch, d *patchDocument) {
	n := out.Number
	if out.Subresource != "" {
		p.wrong(n, "subresource", "is not possible with Event", "remove the key")
	}
	var about Reference
	if raw, ok := p.part(n, "regarding", d.Regarding); ok && json.Unmarshal(raw, &about) != nil {
		p.wrong(n, "regarding", "must be a reference with apiVersion, kind, namespace, name and uid, all strings",
			"namespace and uid may be left out")
	} else if ok {
		p.required(n, " for Event", "regarding.apiVersion", about.APIVersion, "regarding.kind", about.Kind, "regarding.name", about.Name)
		p.inPath(n, "regarding.name", about.Name, "regarding.namespace", about.Namespace)
	}
	out.APIVersion, out.Kind, out.Namespace, out.Name = about.APIVersion, about.Kind, about.Namespace, about.Name
	out.Event = &effect.Event{
		UID: about.UID, Type: p.choice(d, "type", "Normal", "Warning"), Reason: p.text(d, "reason", maxEventReason),
		Action: p.text(d, "action", maxEventReason), Note: p.text(d, "note", effect.MaxNote),
	}
}
