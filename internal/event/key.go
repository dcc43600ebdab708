package event

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// ObjectName identifies an object in a cluster.
type ObjectName struct {
	// Group is the API group, empty for the core group. Namespace is empty for cluster-scoped objects.
	Group, Kind, Namespace, Name string
}

// String is KIND.GROUP/NAMESPACE/NAME without empty parts: the key of the object in a queue with the key "object".
func (n ObjectName) String() string {
	text := n.KindName()
	if n.Namespace != "" {
		text += "/" + n.Namespace
	}
	return text + "/" + n.Name
}

// KindName is KIND.GROUP, or KIND without a group.
func (n ObjectName) KindName() string {
	if n.Group == "" {
		return n.Kind
	}
	return n.Kind + "." + n.Group
}

// KeyOf returns the key of an object in a queue; text is the KeyText of a jq key.
func KeyOf(key hook.Key, n ObjectName, text string) string {
	switch {
	case key == hook.ByNamespace && n.Namespace != "":
		return n.Namespace
	case key.Filter() != "" && text != "":
		return text
	}
	return n.String()
}

// KeyText returns the key that the result of a jq key, as JSON text, stands for: the text of a string, number or boolean. It is empty
// for everything else.
func KeyText(result []byte) (text string) {
	if len(result) == 0 {
		return ""
	}
	switch result[0] {
	case '{', '[', 'n':
		return ""
	case '"':
		if json.Unmarshal(result, &text) != nil || text == "" {
			return ""
		}
	default:
		text = string(result)
	}
	return printable(text)
}

// maxKey is the number of bytes up to which a text is a key as it is.
const maxKey = 256

// printable replaces text that would be too long for listings, breaks terminals, or could be taken for the key of a schedule.
func printable(text string) string {
	if len(text) <= maxKey && text[0] != '@' && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl) {
		return text
	}
	hash := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(hash[:])
}

// LaneKey returns the key of the event in its queue: empty in a queue that is not keyed. What is not about one object has a key of its own.
func (e *Event) LaneKey(lanes hook.Lanes) string {
	b := e.Binding()
	switch {
	case !lanes.Keyed():
		return ""
	case b.Group != "":
		return "@" + e.Hook.Name + "/" + b.Group
	case e.Type == Change:
		return e.Key
	}
	return "@" + e.Hook.Name + "/" + b.Name
}
