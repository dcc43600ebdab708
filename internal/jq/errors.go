package jq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/itchyny/gojq"
)

// maxOwnWords is how long a text that a filter gives to error may be.
const maxOwnWords = 200

// withoutValues is what has happened, without the value that it happened to: errors are logged, and objects may be
// secret. What a filter says with error("…") is kept, as it is meant to be read.
func withoutValues(err error) error {
	if errors.Is(err, errTooBig) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if own := gojq.ValueError(nil); errors.As(err, &own) {
		text, isText := own.Value().(string)
		if !isText {
			return fmt.Errorf("the filter ends with an error that is no text but of the type %s: give error a text, which is logged", gojq.TypeOf(own.Value()))
		}
		if end := maxOwnWords; len(text) > end {
			for !utf8.RuneStart(text[end]) {
				end--
			}
			text = text[:end] + "…"
		}
		return errors.New(text)
	}
	text := err.Error()
	function, _, _ := strings.Cut(text, " cannot be applied to")
	function, _, _ = strings.Cut(function, "(")
	// Values come as JSON text, behind their types.
	if value := strings.IndexAny(text, `("{[-0123456789`); value >= 0 {
		text = strings.TrimRight(text[:value], ": ")
	}
	if text == function {
		text += " cannot be applied to"
	}
	if strings.HasSuffix(text, " applied to") {
		text += " what it was given"
	}
	return errors.New(text)
}
