package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/shell-operator/shell-operator/internal/effect"
)

// ParseAdmission reads the file that ADMISSION_RESPONSE_PATH names: one JSON object. What follows it is ignored.
func ParseAdmission(text []byte) (effect.AdmissionAnswer, error) {
	var answer struct {
		Allowed  bool
		Message  string
		Warnings []string
		Patch    []byte // base64
	}
	err := decodeAnswer(text, "ADMISSION_RESPONSE_PATH", &answer, `write for instance {"allowed": true}; "patch" is a JSON patch in base64`)
	return effect.AdmissionAnswer{Allowed: answer.Allowed, Message: answer.Message, Warnings: answer.Warnings, Patch: answer.Patch}, err
}

// ParseConversion reads the file that CONVERSION_RESPONSE_PATH names: one JSON object. What follows it is ignored.
func ParseConversion(text []byte) (effect.ConversionAnswer, error) {
	var answer struct {
		ConvertedObjects []json.RawMessage
		FailedMessage    string
	}
	err := decodeAnswer(text, "CONVERSION_RESPONSE_PATH", &answer, `write for instance {"convertedObjects": […]} or {"failedMessage": "why"}`)
	return effect.ConversionAnswer{Objects: answer.ConvertedObjects, Failure: answer.FailedMessage}, err
}

func decodeAnswer(text []byte, variable string, into any, mend string) error {
	err := json.NewDecoder(bytes.NewReader(text)).Decode(into)
	if errors.Is(err, io.EOF) {
		err = errors.New("it has no JSON")
	}
	if err == nil && bytes.Equal(bytes.TrimSpace(text), []byte("null")) {
		err = errors.New("it is null, which is no answer")
	}
	if err != nil {
		return fmt.Errorf("the file that $%s names is not valid: %w: %s", variable, err, mend)
	}
	return nil
}
