package dev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/shell-operator/shell-operator/internal/dev/lint"
	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/script"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// LintOptions configure Lint.
type LintOptions struct {
	// NoRun starts no hook: configurations are not checked.
	NoRun bool
}

// LintReport has the findings of a hooks directory.
type LintReport struct {
	// Hooks is how many files are hooks.
	Hooks    int            `json:"hooks"`
	Errors   int            `json:"errors"`
	Warnings int            `json:"warnings"`
	Findings []lint.Finding `json:"findings"`
	// Webhooks are the paths of hooks whose admission or conversion requests only the API server of a real control plane sends.
	Webhooks []string `json:"-"`
}

// WithoutNotes returns the report with problems only.
func (r LintReport) WithoutNotes() LintReport {
	r.Findings = slices.DeleteFunc(slices.Clone(r.Findings), func(f lint.Finding) bool { return f.Level == lint.Note })
	return r
}

// linter checks one hooks directory.
type linter struct {
	opts     Options
	lint     LintOptions
	discover hookset.Options
	// shown is the directory as the user wrote it, root the same without links.
	shown, root string
	// sources are the texts of all files that can be read, by their names below root, and libraries those that others source.
	sources   map[string]script.Source
	libraries lint.Libraries
}

// Lint checks the hooks and the test files below o.HooksDir.
func Lint(ctx context.Context, o Options, options LintOptions) (report LintReport, err error) {
	l := &linter{shown: o.HooksDir, lint: options}
	if problem := noDirectory(o.HooksDir); problem != "" {
		return LintReport{Errors: 1, Findings: []lint.Finding{{Path: l.shown, Level: lint.Error, Message: problem,
			Hint: "name the directory of the hooks"}}}, nil
	}
	if o.HooksDir, err = filepath.Abs(o.HooksDir); err != nil {
		return report, err
	}
	dir, err := prepare(&o)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	l.opts, l.discover = o, discovery(o)

	root, entries, err := hookset.Entries(o.HooksDir)
	if err != nil {
		return report, err
	}
	l.root = root
	l.read()
	answers := l.all(ctx, entries)
	if err := ctx.Err(); err != nil {
		return report, err
	}
	report.Findings = []lint.Finding{} // a list, also in JSON
	for i, e := range entries {
		if e.Skipped == nil {
			report.Hooks++
		}
		if h := answers[i].answer.Hook; h != nil && len(h.Validating)+len(h.Mutating)+len(h.Conversions) > 0 {
			report.Webhooks = append(report.Webhooks, l.show(h.Name))
		}
		report.Findings = append(report.Findings, answers[i].findings...)
	}
	report.Findings = append(report.Findings, l.together(answers)...)
	if report.Hooks == 0 {
		// The operator would start, so this is a warning.
		report.Findings = append(report.Findings, lint.Finding{Path: l.shown, Level: lint.Warning, Message: "no hooks found",
			Hint: "put executable files there, or name another directory"})
	}
	lint.Sort(report.Findings)
	for _, f := range report.Findings {
		switch f.Level {
		case lint.Error:
			report.Errors++
		case lint.Warning:
			report.Warnings++
		}
	}
	return report, nil
}

// noDirectory is why a path leads to no directory; empty if it leads to one.
func noDirectory(path string) string {
	info, err := os.Stat(path)
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return "cannot open the hooks directory: " + failed.Err.Error()
	}
	if !info.IsDir() {
		return "it is not a directory"
	}
	return ""
}

// linted is what came of one entry.
type linted struct {
	source   script.Source
	findings []lint.Finding
	// answer has the hook, if it could be loaded.
	answer hookset.Answer
}

// add adds a finding about the file as a whole.
func (r *linted) add(level lint.Level, message, hint string) { r.addAt(0, 0, level, message, hint) }

func (r *linted) addAt(line, column int, level lint.Level, message, hint string) {
	r.findings = append(r.findings,
		lint.Finding{Path: r.source.Path, Line: line, Column: column, Level: level, Message: message, Hint: hint})
}

// addPlaced adds findings whose paths are keys of the configuration.
func (r *linted) addPlaced(found ...lint.Finding) {
	for _, f := range found {
		line, column := r.place(f.Path, "")
		r.addAt(line, column, f.Level, f.Message, f.Hint)
	}
}

// place returns where in the file a key of the configuration is, or a problem with its syntax.
func (r *linted) place(path, problem string) (line, column int) {
	line, column = wire.Locate(r.answer.Stdout, path, problem)
	return lint.Place(r.source, r.answer.Stdout, line, column)
}

// maxSource is the size above which a file is not read: a script is never that large.
const maxSource = 4 << 20

// read reads all files, because a file may be sourced by another one. What cannot be read is reported where it is checked.
func (l *linter) read() {
	l.sources = map[string]script.Source{}
	var all []script.Source
	_ = filepath.WalkDir(l.root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil
		case path != l.root && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxSource {
			return nil
		}
		name, err := filepath.Rel(l.root, path)
		if err != nil {
			return nil
		}
		if text, err := os.ReadFile(path); err == nil {
			l.sources[name] = script.Source{Path: l.show(name), Text: text}
			all = append(all, l.sources[name])
		}
		return nil
	})
	l.libraries = lint.FindLibraries(all)
	for name, s := range l.sources {
		_, s.SourcedIn = l.libraries.Of(name)
		l.sources[name] = s
	}
}

// all checks all entries concurrently: the time goes to the config calls.
func (l *linter) all(ctx context.Context, entries []hookset.Entry) []linted {
	results := make([]linted, len(entries))
	var checks errgroup.Group
	checks.SetLimit(2 * runtime.GOMAXPROCS(0))
	for i, e := range entries {
		checks.Go(func() error {
			switch {
			case e.Skipped == nil:
				results[i] = l.hook(ctx, e.File)
			case e.Dir && e.Skipped.Cause == hookset.Library:
				results[i].findings = append(l.library(ctx, e), l.skipped(e, lint.Note))
			default:
				results[i] = l.file(ctx, e)
			}
			return nil
		})
	}
	_ = checks.Wait()
	return results
}

func (l *linter) show(name string) string { return filepath.Join(l.shown, name) }

func (l *linter) skipped(e hookset.Entry, level lint.Level) lint.Finding {
	name := l.show(e.Name)
	if e.Dir {
		name += "/"
	}
	return lint.Finding{Path: name, Level: level, Message: "skipped: " + e.Skipped.String()}
}

// file checks one that is no hook.
func (l *linter) file(ctx context.Context, e hookset.Entry) (r linted) {
	switch {
	case e.Skipped.Cause == hookset.Extension && strings.HasSuffix(e.Name, testfile.Suffix):
		return l.testFile(e.Path, e.Name)
	case e.Skipped.Cause == hookset.Library || e.Skipped.Cause == hookset.Unusable:
		r.findings = []lint.Finding{l.skipped(e, lint.Warning)}
		return r
	case e.Skipped.Cause != hookset.NotExecutable:
		r.findings = []lint.Finding{l.skipped(e, lint.Note)}
		return r
	}
	s, err := l.open(&r, e.Path, e.Name)
	if err != nil {
		return r
	}
	switch by, _ := l.libraries.Of(e.Name); {
	case len(by) > 0:
		r.add(lint.Note, "library: sourced by "+strings.Join(by, ", "), "")
	case s.LooksLikeHook():
		r.add(lint.Error, "it looks like a hook, but it is not executable and never runs", "chmod +x "+s.Path)
	default:
		r.add(lint.Warning, "skipped: it is not executable", "if it is a hook: chmod +x "+s.Path)
	}
	r.findings = append(r.findings, l.syntax(ctx, s, e.Path)...)
	return r
}

// testFile checks a test file as test does before it runs a case.
func (l *linter) testFile(path, name string) (r linted) {
	s, err := l.open(&r, path, name)
	if err != nil {
		return r
	}
	f, problems := testfile.Parse(path, s.Text)
	for _, p := range problems {
		r.addAt(p.Line, p.Column, lint.Error, p.Message, p.Hint)
	}
	if len(problems) > 0 {
		return r
	}
	if _, err := f.FindHook(); err != nil {
		r.addAt(1, 1, lint.Error, err.Error(), "")
	} else {
		r.add(lint.Note, fmt.Sprintf("tests: %d", len(f.Cases)), "")
	}
	return r
}

// library checks the scripts below a directory for shared code.
func (l *linter) library(ctx context.Context, e hookset.Entry) (found []lint.Finding) {
	for _, name := range slices.Sorted(maps.Keys(l.sources)) {
		path := filepath.Join(l.root, name)
		switch {
		case !strings.HasPrefix(name, e.Name+"/"):
		case strings.HasSuffix(name, testfile.Suffix):
			found = append(found, l.testFile(path, name).findings...)
		default:
			found = append(found, l.syntax(ctx, l.sources[name], path)...)
		}
	}
	return found
}

// open reads the file of an entry. An error is a finding.
func (l *linter) open(r *linted, path, name string) (s script.Source, err error) {
	if r.source, err = l.source(path, name); err != nil {
		r.add(lint.Error, "cannot read it: "+err.Error(), "")
	}
	return r.source, err
}

func (l *linter) source(path, name string) (script.Source, error) {
	if s, ok := l.sources[name]; ok {
		return s, nil
	}
	text, err := os.ReadFile(path)
	return script.Source{Path: l.show(name), Text: text}, err
}

func (l *linter) syntax(ctx context.Context, s script.Source, file string) []lint.Finding {
	return append(lint.Shell(ctx, s, file, l.check), lint.Python(ctx, s, file, l.check)...)
}

// hook checks a hook file and its configuration.
func (l *linter) hook(ctx context.Context, f hookset.File) (r linted) {
	s, err := l.source(f.Path, f.Name)
	if r.source = s; err != nil {
		// The operator needs no permission to read what the system can execute.
		r.add(lint.Warning, "cannot read it, its syntax is not checked: "+err.Error(), "")
	} else {
		r.findings = l.syntax(ctx, s, f.Path)
		if slices.ContainsFunc(r.findings, func(f lint.Finding) bool { return f.Level == lint.Error }) {
			return r // the config call would fail because of this
		}
	}
	if l.lint.NoRun {
		r.add(lint.Note, "hook: config call skipped (--no-run)", "")
		return r
	}
	if r.answer, err = hookset.Ask(ctx, l.discover, l.root, f); err != nil {
		r.addFailure(l, f.Name, err)
		r.addWarnings()
		return r
	}
	h := r.answer.Hook
	r.add(lint.Note, "hook: "+hookset.Summary(h), "")
	r.addWarnings()
	for _, found := range lint.Hook(s, h, hookset.ContextsOf(l.root, l.opts.HooksDir, f.Name)) {
		if found.Path != s.Path { // in a library
			found.Path = l.show(found.Path)
		}
		r.findings = append(r.findings, found)
	}
	if text := lastLines(r.answer.Stderr, 3); text != "" {
		r.add(lint.Note, "the call with --config succeeded, but wrote to stderr: "+text, "has a command failed? set -e ends the script then")
	}
	r.addPlaced(lint.Configuration(h)...)
	return r
}

func (r *linted) addWarnings() {
	for _, w := range r.answer.Warnings {
		line, column := r.place(w.Path, w.Problem)
		r.addAt(line, column, lint.Warning, lint.OfOutput(w.String()), "")
	}
}

// addFailure adds findings for the error of a config call.
func (r *linted) addFailure(l *linter, name string, err error) {
	var config *wire.ConfigError
	var call *hookset.CallError
	switch {
	case errors.As(err, &config):
		more := ""
		if text := process.LastLine(string(r.answer.Stderr)); text != "" {
			more = "; it wrote to stderr: " + text
		}
		for _, v := range config.Violations {
			line, column := r.place(v.Path, v.Problem)
			hint := v.Hint
			v.Hint = ""
			if v.Path == "" {
				v.Problem += shownLine(r.answer.Stdout, v.Problem)
			}
			r.addAt(line, column, lint.Error, v.String()+more, hint)
			more = "" // the first one has it
		}
	case errors.As(err, &call):
		message := "the call with --config failed: " + strings.ReplaceAll(call.Reason(), l.root, l.shown)
		if hint := elsewhere(l.libraries, r.source.Path, l.root); hint != "" {
			r.add(lint.Warning, "not checked: "+message, hint)
		} else if by, _ := l.libraries.Of(name); len(by) > 0 {
			r.add(lint.Error, message, "if it is only sourced, by "+strings.Join(by, ", ")+": chmod -x "+r.source.Path)
		} else {
			r.add(lint.Error, message, "")
		}
	default:
		r.add(lint.Error, err.Error(), "")
	}
}

// shownLine is the line of the output that a syntax error is about.
func shownLine(output []byte, problem string) string {
	at, _ := wire.Locate(output, "", problem)
	lines := strings.Split(string(output), "\n")
	if at < 1 || at > len(lines) {
		return ""
	}
	return fmt.Sprintf(" (%q)", strings.TrimSpace(lines[at-1]))
}

func lastLines(text []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], " | ")
}

// together checks the hooks against each other.
func (l *linter) together(all []linted) (found []lint.Finding) {
	var hooks []*hook.Hook
	byName := map[string]*linted{}
	for _, one := range all {
		if h := one.answer.Hook; h != nil {
			hooks = append(hooks, h)
			one.findings, one.answer.Stderr = nil, nil // they are reported
			byName[h.Name] = &one
		}
	}
	for _, err := range hookset.Check(hooks, true) {
		byName[err.Hook].addFailure(l, err.Hook, err)
	}
	for name, duplicates := range lint.Duplicates(hooks) {
		byName[name].addPlaced(duplicates...)
	}
	for _, one := range byName {
		found = append(found, one.findings...)
	}
	return found
}
