// Package wire implements the formats of hooks: it parses configurations, operations, metrics, answers and results, and writes binding
// contexts.
//
// Callers may rely on this:
//   - Only this package knows the JSON and YAML of hooks, and versions v0 and v1. Its results are typed and valid.
//   - A text that begins with { or [ and is valid JSON is read as JSON, in all places that accept YAML, too.
//   - All errors of a configuration are reported together, each with its path and a hint.
//   - Objects are copied into contexts byte by byte, never decoded.
//
// The formats are specified in docs/reference/hook-configuration.md and docs/reference/binding-contexts.md.
package wire

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
)

// ConfigOptions are the dependencies of ParseConfig. JQ and CheckCrontab are required.
type ConfigOptions struct {
	JQ *jq.Compiler
	// CheckCrontab returns an error for an invalid crontab.
	CheckCrontab func(string) error
	// SkipExistingV0 keeps the objects that exist at the start from hooks of version 0, which otherwise receive each as "add".
	SkipExistingV0 bool
	// ContextsPerRun is the default of settings.contextsPerRun.
	ContextsPerRun int
}

// Warning reports a part of a file that is accepted but probably a mistake.
type Warning struct {
	Path    string
	Problem string
}

func (w Warning) String() string { return strings.TrimPrefix(w.Path+": "+w.Problem, ": ") }

// Violation is one error in a configuration.
type Violation struct {
	// Path locates it, as in "kubernetes[1].nameSelector.matchNames".
	Path string
	// Binding is the name of the binding at the path, if it has one.
	Binding string
	// Problem is the error and Hint how to fix it; Hint may be empty.
	Problem, Hint string
}

func (v Violation) String() string {
	var b strings.Builder
	b.WriteString(v.Path)
	if v.Binding != "" {
		fmt.Fprintf(&b, " (binding %q)", v.Binding)
	}
	b.WriteString(" " + v.Problem)
	if v.Hint != "" {
		b.WriteString(": " + v.Hint)
	}
	return strings.TrimSpace(b.String())
}

// maxReported bounds an error: a hook can repeat one mistake thousands of times.
const maxReported = 50

// violations are the first maxReported ones of a file, and the number of the others.
type violations struct {
	first  []Violation
	others int
}

func (v *violations) add(one Violation) {
	if len(v.first) == maxReported {
		v.others++
		return
	}
	v.first = append(v.first, one)
}

func (v *violations) count() int { return len(v.first) + v.others }

func (v *violations) bulleted(text string) string {
	if text = bulleted(text, v.first); v.others > 0 {
		text += fmt.Sprintf("\n  … and %d more", v.others)
	}
	return text
}

// bulleted is a text with a line for each violation.
func bulleted(text string, violations []Violation) string {
	var b strings.Builder
	b.WriteString(text)
	for i, v := range violations {
		if i == maxReported {
			fmt.Fprintf(&b, "\n  … and %d more", len(violations)-i)
			break
		}
		b.WriteString("\n  * " + v.String())
	}
	return b.String()
}

func notValid(what string, violations []Violation) string {
	number := ""
	if len(violations) > 1 {
		number = fmt.Sprintf(", %d problems", len(violations))
	}
	return bulleted(what+" is not valid"+number+":", violations)
}

// ConfigError lists all errors in the configuration of one hook.
type ConfigError struct {
	Hook       string
	Violations []Violation
	// Output is the hook's stdout.
	Output string
}

func (e *ConfigError) Error() string {
	text := notValid(fmt.Sprintf("hook %q: the configuration", e.Hook), e.Violations)
	if strings.TrimSpace(e.Output) != "" {
		text += "\nThe hook printed:\n" + printable(e.Output)
	}
	return text
}

// maxShown limits the output of a hook in an error.
const maxShown = 4 << 10

// printable escapes control characters and truncates long text.
func printable(text string) string {
	rest := ""
	if len(text) > maxShown {
		text, rest = text[:maxShown], fmt.Sprintf("\n… (%d bytes more)", len(text)-maxShown)
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch one := text[:size]; {
		case r == utf8.RuneError && size == 1, r != '\n' && r != '\t' && !unicode.IsPrint(r):
			quoted := strconv.Quote(one)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteString(one)
		}
		text = text[size:]
	}
	return b.String() + rest
}

// ParseConfig parses the output of a config call. An error is a *ConfigError. Warnings are returned with and without an error.
func ParseConfig(name, path string, output []byte, opts ConfigOptions) (hook.Hook, []Warning, error) {
	p := &parser{ConfigOptions: opts, document: configDocument, hook: hook.Hook{Name: name, Path: path}}
	if root, ok := p.decode(output); ok {
		p.tree = root
		p.root()
	}
	if len(p.violations) > 0 {
		inOrder(output, p.violations)
		return hook.Hook{}, p.warnings, &ConfigError{Hook: name, Violations: p.violations, Output: string(output)}
	}
	return p.hook, p.warnings, nil
}

// parser collects the violations and warnings of one document.
type parser struct {
	ConfigOptions
	document   document
	violations []Violation
	warnings   []Warning
	// tree is the document; what violates the schema is removed. bindings are the bindings of a configuration, complete, by their path.
	tree     map[string]any
	bindings map[string]map[string]any
	// hook is made of a configuration; includes are the names in includeSnapshotsFrom, by the path of the binding.
	hook     hook.Hook
	includes map[string][]string
}

// warn adds a warning unless it is there: several bindings can cause the same one.
func (p *parser) warn(path, format string, args ...any) {
	if w := (Warning{path, fmt.Sprintf(format, args...)}); !slices.Contains(p.warnings, w) {
		p.warnings = append(p.warnings, w)
	}
}

// root dispatches on the version.
func (p *parser) root() {
	value, given := p.tree["configVersion"]
	text, isText := value.(string)
	s, err := configSchema()
	switch {
	case err != nil:
		p.violation("", err.Error(), "")
	case !given, text == "v0":
		delete(p.tree, "configVersion")
		p.v0(s)
	case value == nil:
		p.violation("configVersion", "has no value", `write "configVersion: v1"`)
	case !isText:
		p.violation("configVersion", fmt.Sprintf("must be of type string: string expected, found %s", jq.TypeOf(value)),
			`write "configVersion: v1"`)
	case text == "v1":
		p.v1(s)
	default:
		p.violation("configVersion", fmt.Sprintf("%q is not supported", text), `use "v1"`)
	}
}

func withArticle(noun string) string {
	if strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}
