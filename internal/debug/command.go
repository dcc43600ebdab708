package debug

import (
	"errors"
	"net/url"
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

// Flag is a flag of a command, which sets a field of the form.
type Flag struct {
	Name, Field string
	// Default is "false" for a switch.
	Default, Usage string
	// Path is set for a flag that calls another route instead, with its value as the name in the path and no argument.
	Path string
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
