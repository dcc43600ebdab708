package admission

import (
	"encoding/json"
	"errors"
	"fmt"

	apipatch "gopkg.in/evanphx/json-patch.v4"
)

// needed are the fields of each operation of JSON patches, but for the value of a test.
var needed = map[string][]string{
	"add": {"path", "value"}, "remove": {"path"}, "replace": {"path", "value"}, "move": {"path", "from"}, "copy": {"path", "from"},
	"test": {"path"},
}

// checkPatch finds errors for which the API server would reject a JSON patch of any object, with a clearer message. The
// error contains no values of the patch.
func checkPatch(patch []byte) error {
	operations, err := apipatch.DecodePatch(patch)
	if err != nil {
		return errors.New(`it is not a JSON patch, that is a list such as [{"op": "add", "path": "/metadata/labels/a", "value": "b"}]`)
	}
	for i, o := range operations {
		fields, known := needed[o.Kind()]
		if !known {
			return fmt.Errorf("operation %d: unknown op %q", i, o.Kind())
		}
		for _, field := range fields {
			text, there := o[field]
			if !there {
				return fmt.Errorf("operation %d: op %q: it has no %q", i, o.Kind(), field)
			}
			var pointer string
			if field != "value" && (text == nil || json.Unmarshal(*text, &pointer) != nil || pointer != "" && pointer[0] != '/') {
				return fmt.Errorf("operation %d: op %q: %s is not a text that begins with a slash", i, o.Kind(), field)
			}
		}
	}
	return nil
}

// orNothing is nil for a patch without operations.
func orNothing(patch []byte) []byte {
	var operations []json.RawMessage
	if json.Unmarshal(patch, &operations) == nil && len(operations) == 0 {
		return nil
	}
	return patch
}

// checkApplies returns why the API server could not apply a patch to the object of a review. The error contains paths of the
// patch, and no values.
func checkApplies(review, patch []byte) error {
	var r struct {
		Request struct{ Object json.RawMessage }
	}
	if err := json.Unmarshal(review, &r); err != nil || r.Request.Object == nil {
		return nil //nolint:nilerr // it is no review with an object, so there is nothing to compare with
	}
	_, err := ApplyPatch(r.Request.Object, patch)
	return err
}

// ApplyPatch applies the patch of a hook as the API server does, by the same library: later versions of it reject other patches.
func ApplyPatch(object, patch []byte) ([]byte, error) {
	decoded, err := apipatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	patched, err := decoded.Apply(object)
	if err != nil {
		return nil, fmt.Errorf("it does not apply to the object: %w", err)
	}
	return patched, nil
}
