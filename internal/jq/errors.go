package jq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/itchyny/gojq"
)

// maxOwnWords limits the text of error("…").
const maxOwnWords = 200

// withoutValues returns an error without values: errors are logged, and objects may be secret. The text of error("…") is
// kept: it is meant for the log.
func withoutValues(err error) error {
	if errors.Is(err, errTooBig) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if own := gojq.ValueError(nil); errors.As(err, &own) {
		text, isText := own.Value().(string)
		if !isText {
			return fmt.Errorf("the filter calls error with a value of type %s: call it with a string, which is logged", gojq.TypeOf(own.Value()))
		}
		if end := maxOwnWords; len(text) > end {
			for !utf8.RuneStart(text[end]) {
				end--
			}
			text = text[:end] + "…"
		}
		return errors.New(text)
	}
	return errors.New(sentence(err.Error()))
}

var types = []string{"null", "boolean", "number", "string", "array", "object"}

// sentence returns an error of gojq with the types of values and without the values. gojq writes a value as its type and the
// beginning of its JSON text, as in: cannot add: string ("secret") and number (1). A value can contain any text, so behind the first
// one only words from the list of types are kept.
func sentence(text string) string {
	const applied = " cannot be applied to"
	if at := strings.LastIndex(text, applied); at > 0 {
		function := text[:strings.IndexAny(text, "( ")]
		rest := text[at+len(applied):]
		if value, ok := strings.CutPrefix(rest, ": "); ok {
			return function + applied + " " + leadingType(value)
		}
		return function + applied + " this " + TypeOfText([]byte(rest))
	}
	if strings.HasPrefix(text, "cannot divide number") || strings.HasPrefix(text, "cannot modulo number") {
		return "cannot divide by zero"
	}
	head, values, _ := strings.Cut(text, ": ")
	if head != `expected "start" and "end" for slicing but got` {
		if at := strings.IndexAny(head, "(\"{["); at >= 0 {
			head = strings.TrimSpace(head[:at])
		}
	}
	first := leadingType(values)
	if first == "" {
		return head
	}
	head += " " + first
	for _, t := range types {
		if at := strings.LastIndex(values, " and "+t); at > 0 && (strings.HasPrefix(values[at+len(" and "+t):], " (") ||
			strings.HasSuffix(values, " and "+t)) {
			return head + " and " + t
		}
	}
	return head
}

// leadingType is the type with which a text begins, or "".
func leadingType(text string) string {
	for _, t := range types {
		if text == t || strings.HasPrefix(text, t+" ") {
			return t
		}
	}
	return ""
}

// TypeOf is the JSON type of a decoded value.
func TypeOf(v any) string { return gojq.TypeOf(v) }

// TypeOfText is the type of the JSON value with which a text begins.
func TypeOfText(text []byte) string { return typeOfKind[jsontext.Value(text).Kind()] }

var typeOfKind = map[jsontext.Kind]string{
	'n': "null", 't': "boolean", 'f': "boolean", '0': "number", '"': "string", '[': "array", '{': "object",
}
