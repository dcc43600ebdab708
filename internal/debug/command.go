package debug

import (
	"errors"
	"net/url"
	"slices"
	"strings"
)

// Command is how the command line calls a route.
type Command struct {
	// Use begins with the words of the command: "parked retry [ID]".
	Use, Short, Long, Example string
	// Args are the numbers of arguments that are accepted: each is a list of the fields of the form to which they belong, in order. "*" is the
	// name in the path. None means that there are no arguments.
	Args [][]string
	// Many is the field of each of any number of arguments, instead of Args.
	Many string
	// Takes is what the arguments are, for the error about their number.
	Takes string
	Flags []Flag
	// List shows the answer as a table; nil if it is no list.
	List *List
	// Check rejects a form.
	Check func(form url.Values) error
}

// Line are the words of the command that sends a form, and what of the form it sends: other fields are none of the command.
func (c *Command) Line(form url.Values) (words []string, sent url.Values) {
	for _, word := range strings.Fields(c.Use) {
		if word != strings.ToLower(word) || strings.HasPrefix(word, "[") {
			break // an argument
		}
		words = append(words, word)
	}
	sent = url.Values{}
	var args []string
	for _, fields := range append([][]string{{c.Many}}, c.Args...) {
		if len(fields) > len(args) && !slices.ContainsFunc(fields, func(f string) bool { return form.Get(f) == "" }) {
			args = fields
		}
	}
	for _, field := range args {
		words, sent[field] = append(words, form[field]...), form[field]
	}
	for _, f := range c.Flags {
		switch {
		case !form.Has(f.Field):
			continue
		case f.Default != "false":
			words = append(words, "--"+f.Name, form.Get(f.Field))
		case form.Get(f.Field) != "true":
			continue
		default:
			words = append(words, "--"+f.Name)
		}
		sent.Set(f.Field, form.Get(f.Field))
	}
	return words, sent
}

// Flag is a flag of a command, which sets a field of the form.
type Flag struct {
	Name, Field string
	// Default is "false" for a switch.
	Default, Usage string
	// Path is set for a flag that calls another route instead, with its value as the name in the path and no argument.
	Path string
	// Empty: an empty value is one. Of other flags it is an error: without its restriction the command would concern more.
	Empty bool
}

// oneOf rejects a form that does not have exactly one of two fields.
func oneOf(a, b, otherwise string) func(url.Values) error {
	return func(form url.Values) error {
		if (form.Get(a) == "") == (form.Get(b) == "") {
			return errors.New(otherwise)
		}
		return nil
	}
}

// ofOne are the arguments of commands on one hook, queue or other thing.
var ofOne = [][]string{{"*"}}

const (
	oneHook  = "the name of one hook"
	oneQueue = "the name of one queue"
)
