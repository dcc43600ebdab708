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
	// Names are those that complete the first argument, or each of Many; Then completes the second one.
	Names, Then Names
}

// Flag is a flag of a command, which sets a field of the form.
type Flag struct {
	Name, Field string
	// Default is "false" for a switch.
	Default, Usage string
	// Path is set for a flag that calls another route instead, with its value as the name in the path and no argument.
	Path string
	// Names are those that complete the value.
	Names Names
}

// Names are the names in the answer to a path: its strings, or the values of a key of its objects, which others describe.
type Names struct {
	Path, Key string
	About     []string
	// In is a list in the objects: the names are in it, of the object whose key name is the first argument of the command.
	In string
	// Keep reports whether an object is one of them; nil keeps all.
	Keep func(object map[string]any) bool
	// See is where users find them.
	See string
}

// HookNames are the names of hooks, QueueNames those of queues, RunNames the ids of runs.
var (
	HookNames  = Names{Path: "/hook/list.json", See: "shell-operator hook list shows all"}
	QueueNames = Names{Path: "/queue/list.json?showEmpty=true", Key: "name"}
	RunNames   = Names{Path: "/run/list.json", Key: "id", About: []string{"hook", "status"}, See: "shell-operator runs lists them"}
	// laneKeys are the keys of the lanes of a queue that have tasks, bindingNames the bindings of a hook that can be triggered.
	laneKeys     = Names{Path: "/queue/list.json", In: "tasks", Key: "key"}
	bindingNames = Names{Path: "/hooks.json", In: "bindings", Key: "name", About: []string{"type", "about"}, Keep: triggerable}
)

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
