package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/spelling"
)

// ParseAdmission reads the file at ADMISSION_RESPONSE_PATH: one JSON object. Trailing text is ignored.
func ParseAdmission(text []byte) (effect.AdmissionAnswer, error) {
	var answer struct {
		Allowed  *bool    `json:"allowed"`
		Message  string   `json:"message"`
		Warnings []string `json:"warnings"`
		Patch    []byte   `json:"patch"` // base64
	}
	err := decodeAnswer(text, "ADMISSION_RESPONSE_PATH", &answer, `write for instance {"allowed": true}`)
	if err == nil && answer.Allowed == nil && answer.Message == "" {
		answer.Message = meantAllowed(text)
	}
	return effect.AdmissionAnswer{Allowed: answer.Allowed != nil && *answer.Allowed, Message: answer.Message, Warnings: answer.Warnings,
		Patch: answer.Patch}, err
}

// meantAllowed is the message of an answer without the key allowed, which denies the request, if another key is like it.
func meantAllowed(text []byte) string {
	var keys map[string]json.RawMessage
	_ = json.NewDecoder(bytes.NewReader(text)).Decode(&keys) // it was read
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if spelling.Nearest(key, []string{"allowed"}) != "" {
			return fmt.Sprintf("the answer of the hook has the unknown key %q: did you mean \"allowed\"?", key)
		}
	}
	return ""
}

// ParseConversion reads the file at CONVERSION_RESPONSE_PATH: one JSON object. Trailing text is ignored.
func ParseConversion(text []byte) (effect.ConversionAnswer, error) {
	var answer effect.ConversionAnswer
	err := decodeAnswer(text, "CONVERSION_RESPONSE_PATH", &answer,
		`write for instance {"convertedObjects": […]} or {"failedMessage": "why"}`)
	return answer, err
}

// answerTypes are the types of the keys of all answers, as in docs/reference/hook-process.md.
var answerTypes = map[string]string{
	"allowed": "a boolean, true or false without quotes", "message": "a string", "warnings": "a list of strings",
	"convertedObjects": "a list", "failedMessage": "a string",
	"status": "a whole number", "headers": "an object", "body": "a string; for JSON there is the key json", "bodyBase64": "a string in base64",
}

func decodeAnswer(text []byte, variable string, into any, hint string) error {
	err := json.NewDecoder(bytes.NewReader(text)).Decode(into)
	if err == nil && bytes.Equal(bytes.TrimSpace(text), []byte("null")) {
		err = errors.New("it is null, which is no answer")
	}
	if err != nil {
		err = answerError(text, err)
		if errors.Is(err, errPatch) {
			hint = `write {"allowed": true, "patch": "W3sib3…"}, as jq does by ([{op: "add", …}] | tojson | @base64); the libraries encode it`
		}
		return fmt.Errorf("the file that $%s names is not valid: %w: %s", variable, err, hint)
	}
	return nil
}

// errPatch is a patch that is not in base64.
var errPatch = errors.New(`"patch" must be a string: a JSON patch in base64`)

// answerError rewrites an error of the JSON decoder for authors of hooks. It shows no values.
func answerError(text []byte, err error) error {
	var wrongType *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("it has no JSON")
	case errors.As(err, &wrongType):
		is, _, _ := strings.Cut(wrongType.Value, " ")
		if is == "bool" {
			is = "boolean"
		}
		if wrongType.Field == "" {
			return fmt.Errorf("it must be a JSON object, not %s", withArticle(is))
		}
		if wrongType.Field == "patch" { // the decoder reports the type of its items
			return errPatch
		}
		return fmt.Errorf("%q must be %s, not %s", wrongType.Field, answerTypes[wrongType.Field], withArticle(is))
	case errors.As(err, new(base64.CorruptInputError)):
		return errPatch
	case errors.As(err, &syntax) && !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")):
		return errors.New("it must be a JSON object, YAML and plain text are not read")
	case errors.As(err, &syntax), errors.Is(err, io.ErrUnexpectedEOF):
		at := len(text)
		if syntax != nil {
			at = min(int(syntax.Offset), at)
		}
		return fmt.Errorf("it is not valid JSON, in line %d", 1+bytes.Count(text[:at], []byte("\n")))
	}
	return err
}
