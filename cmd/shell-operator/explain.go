package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/docs"
	"github.com/shell-operator/shell-operator/internal/schema"
)

func newExplainCommand(stdout io.Writer) *cobra.Command {
	output := formatText
	cmd := &cobra.Command{
		Use:   "explain [KEY|PAGE [WORD]|CODE]",
		Short: "Explain keys of the files that hooks read and write, the libraries, and codes of errors",
		Long: `Explain a key of the configuration of a hook (hook…), of an operation (operation…), of a binding context (context…), of the
result file of a run (result…) or of a test file (test…): its type, default, meaning and children. Lists have no place in KEY.

Print a page of the reference: files (variables and files of a run), contexts, tests, metrics, webhooks, http, shell and
python (the libraries); with a WORD, such as the name of a function, what the page says about it.

Explain the code that findings of lint, test and run have with -o json: what the message means, and the fix.
Without an argument, list the words that keys begin with, and the pages.`,
		Example: `  shell-operator explain hook.kubernetes.queue
  shell-operator explain operation.Sync
  shell-operator explain context.Event.object
  shell-operator explain test.cases.expect
  shell-operator explain shell kubernetes::sync
  shell-operator explain concurrency-without-key
  shell-operator explain hook -o json-schema`,
		Args:      cobra.MaximumNArgs(2),
		ValidArgs: append(schemaWords(), pageWords()...),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := explained(output, args)
			if err != nil {
				return err
			}
			_, err = io.WriteString(stdout, text)
			return err
		},
	}
	addFormat(cmd, &output, formatText, formatSchema)
	return cmd
}

// explainedPages are the pages that can be explained, by their word.
var explainedPages = map[string]string{
	"files": "hook-process.md", "metrics": "hook-metrics.md", "webhooks": "webhooks.md", "http": "http-hooks.md", "shell": "shell-library.md",
	"python": "python-library.md", "tests": "test-files.md", "contexts": "binding-contexts.md",
}

func pageWords() []string { return slices.Sorted(maps.Keys(explainedPages)) }

// mentions names the pages that have a word.
func mentions(word string) string {
	var all []string
	for _, page := range pageWords() {
		if docs.Page(explainedPages[page], word) != "" {
			all = append(all, page)
		}
	}
	return suffix("the word is on the pages ", strings.Join(all, ", "))
}

func explained(output string, args []string) (string, error) {
	if len(args) == 1 {
		args = strings.SplitN(args[0], " ", 2)
	}
	if len(args) == 0 {
		return fmt.Sprintf("keys begin with:\n  %s\npages:\n  %s\n", strings.Join(schemaWords(), "\n  "), strings.Join(pageWords(), "\n  ")), nil
	}
	word := ""
	if len(args) == 2 {
		word = args[1]
	}
	page, isPage := explainedPages[args[0]]
	switch {
	case output == formatSchema:
		text, ok := schemas[args[0]]
		if !ok || word != "" {
			return "", fmt.Errorf("-o %s prints a whole schema: name one of %s", formatSchema, strings.Join(schemaWords(), ", "))
		}
		return string(text), nil
	case isPage:
		text := docs.Page(page, word)
		if text == "" {
			return "", &hinted{fmt.Errorf("the page %s has nothing about %q: shell-operator explain %s prints all of it", args[0], word, args[0]),
				mentions(word)}
		}
		return text, nil
	case word != "":
		return "", &hinted{fmt.Errorf("there is no page %q%s", args[0], didYouMean(args[0], pageWords())),
			"a second word is searched in a page: " + strings.Join(pageWords(), ", ")}
	}
	for _, e := range docs.Errors() {
		if e.Code == args[0] {
			return fmt.Sprintf("%s: %s\n\ncause: %s\nfix: %s\n", e.Code, strings.Join(e.Messages, ", "), e.Cause, e.Fix), nil
		}
	}
	s, err := findSchema(args[0])
	if err != nil {
		return "", err
	}
	return s.explanation(args[0]), nil
}

// schemas are the files that can be explained, by the first word of a key.
var schemas = map[string][]byte{
	"hook": docs.HookSchema, "operation": docs.OperationSchema, "context": docs.ContextSchema, "result": docs.ResultSchema,
	"test": docs.TestSchema,
}

// schemaWords are these words.
func schemaWords() []string { return slices.Sorted(maps.Keys(schemas)) }

// part is a part of a JSON Schema.
type part struct {
	*schema.Schema
	// whole: it describes a file.
	whole bool
}

// rootSchema returns the schema that the first word of a key names, of the version that new hooks have.
func rootSchema(word string) (part, bool) {
	root, err := schema.Parse(schemas[word])
	if err != nil {
		return part{}, false
	}
	if current := root.Defs["v1"]; current != nil {
		current.Description = root.Description
		return part{current, false}, true
	}
	return part{root, true}, true
}

func findSchema(key string) (part, error) {
	words := strings.Split(key, ".")
	s, ok := rootSchema(words[0])
	if !ok {
		known := append(schemaWords(), pageWords()...)
		for _, e := range docs.Errors() {
			known = append(known, e.Code)
		}
		hint := "keys begin with " + strings.Join(schemaWords(), ", ") + ", for instance hook.kubernetes.queue; pages are " +
			strings.Join(pageWords(), ", ")
		return s, &hinted{fmt.Errorf("there is no key, page or code %q%s", key, didYouMean(words[0], known)), hint + suffix("; ", mentions(key))}
	}
	for i, word := range words[1:] {
		children := s.children()
		child, ok := children[word]
		if !ok {
			names, parent := slices.Sorted(maps.Keys(children)), strings.Join(words[:i+1], ".")
			if len(names) == 0 {
				return s, fmt.Errorf("%s has no keys", parent)
			}
			return s, &hinted{fmt.Errorf("%s has no key %q%s", parent, word, didYouMean(word, names)), "its keys are " + strings.Join(names, ", ")}
		}
		s = child
	}
	return s, nil
}

// alternatives are the forms that a value may have, but for rules about its keys.
func (s part) alternatives() (all []part) {
	for _, one := range slices.Concat(s.OneOf, s.AnyOf) {
		if len(one.Required) == 0 || len(one.Types) > 0 {
			all = append(all, part{one, false})
		}
	}
	return all
}

// required are the keys that a mapping must have.
func (s part) required() []string {
	if s.Items == nil {
		return s.Required
	}
	return append(slices.Clone(s.Required), s.Items.Required...)
}

// children are the keys of a mapping, or of the mappings in a list, or the forms of a file.
func (s part) children() map[string]part {
	all := map[string]part{}
	if s.whole && len(s.OneOf)+len(s.AnyOf) > 0 {
		for _, form := range slices.Concat(s.OneOf, s.AnyOf) {
			all[path.Base(form.Ref)] = part{form, false}
		}
		return all
	}
	for _, name := range s.Keys() {
		all[name] = part{s.Properties[name], false}
	}
	for _, inside := range append(s.alternatives(), part{s.Items, false}, part{s.Additional, false}) { // of the items, of the values
		if inside.Schema != nil {
			maps.Copy(all, inside.children())
		}
	}
	return all
}

// kind is the type in words.
func (s part) kind() string {
	if s.Title != "" && !s.whole {
		return s.Title
	}
	var kinds []string
	add := func(kind string) {
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	for _, a := range s.alternatives() {
		add(a.kind())
	}
	for _, t := range s.Types {
		switch {
		case len(kinds) > 0 && len(s.OneOf) > 0: // they are the types of the alternatives
		case t == "array" && s.Items != nil:
			of := part{s.Items, false}.kind()
			if strings.Contains(of, " or ") {
				of = "(" + of + ")"
			}
			add("list of " + of)
		case t == "array":
			add("list")
		case t == "object":
			add("mapping")
		default:
			add(t)
		}
	}
	if len(kinds) == 0 && len(s.values()) > 0 {
		add("string")
	}
	return cmp.Or(strings.Join(kinds, " or "), "anything")
}

// values are the only ones that are valid.
func (s part) values() []string {
	all := slices.Clone(s.Enum)
	if s.Const != nil {
		all = append(all, fmt.Sprint(s.Const))
	}
	for _, a := range s.alternatives() {
		values := a.values()
		if len(values) == 0 {
			return nil
		}
		all = append(all, values...)
	}
	return all
}

// defaultSentence is how descriptions name the default.
var defaultSentence = regexp.MustCompile(`Default: (.*?)\.(?: |$)`)

// meaning splits the description into the default and the rest.
func (s part) meaning() (text, value string) {
	text = s.Description
	if m := defaultSentence.FindStringSubmatch(text); m != nil {
		text, value = strings.TrimSpace(strings.Replace(text, m[0], "", 1)), m[1]
	}
	return text, value
}

// example is a line with the first example, if there is one.
func (s part) example(indent string) string {
	if len(s.Examples) == 0 {
		return ""
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s.Examples[0]) // a value that was JSON
	return indent + "Example: " + text.String()
}

func (s part) explanation(key string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", key, s.kind())
	text, value := s.meaning()
	if value != "" {
		fmt.Fprintf(&b, "default: %s\n", value)
	}
	if values := s.values(); len(values) > 0 {
		fmt.Fprintf(&b, "values: %s\n", strings.Join(values, ", "))
	}
	fmt.Fprintf(&b, "\n%s\n%s", text, s.example(""))
	children := s.children()
	for _, name := range slices.Sorted(maps.Keys(children)) {
		text, value := children[name].meaning()
		if values := children[name].values(); len(values) > 1 {
			text += " Values: " + strings.Join(values, ", ") + "."
		}
		need := ""
		if slices.Contains(s.required(), name) {
			need = ", required"
		}
		fmt.Fprintf(&b, "\n%s: %s%s%s\n  %s\n%s", name, children[name].kind(), need, suffix(", default: ", value), text,
			children[name].example("  "))
	}
	return b.String()
}
