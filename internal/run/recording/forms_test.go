package recording

import (
	"reflect"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/wire"
)

// What of a form is kept of a Secret is decided where the form is: each field says what it holds.
func TestFormsSayWhatTheyHold(t *testing.T) {
	for _, form := range []reflect.Type{
		reflect.TypeFor[wire.Operation](), reflect.TypeFor[wire.Reference](), reflect.TypeFor[wire.Metric](), reflect.TypeFor[wire.Result](),
		reflect.TypeFor[wire.Requeue](),
		reflect.TypeFor[wire.Admission](), reflect.TypeFor[wire.Conversion](), reflect.TypeFor[wire.HTTP](),
	} {
		for f := range form.Fields() {
			switch f.Tag.Get("holds") {
			case "word", "text", "value":
			default:
				t.Errorf("%s.%s needs the tag holds: word, text or value", form, f.Name)
			}
		}
	}
	if got := strings.Join(keptKeys, " "); got != "operation apiVersion kind namespace name subresource set pruneKinds drift allowEmpty "+
		"migrate force ignoreMissingObject ignoreHookError" {
		t.Errorf("of an operation on a Secret recordings keep %s", got)
	}
}
